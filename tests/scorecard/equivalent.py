"""The tables of mutants that are right kernels."""


class Equivalent:
    """Mutants that are right kernels, and why: file, line (… at its end: how it begins), change (*: any), reason."""

    def __init__(self, table):
        self.table = table
        lines = table.read_text(encoding="utf-8").splitlines()
        self.rows = [line.split("\t") for line in lines if line and not line.startswith("#")]

    def reason(self, mutant):
        return next((row[3] for row in self.rows if self.names(row, mutant)), None)

    @staticmethod
    def names(row, mutant):
        file, text, change, _ = row
        same = mutant.text == text or (text.endswith("…") and mutant.text.startswith(text[:-1]))
        return file == mutant.file and same and change in ("*", mutant.name(), mutant.change)

    def stale(self, found):
        """What to say of rows whose line or change is gone."""
        return [f"{self.table.name} names a change that is gone: {row[0]}: {row[1]}: {row[2]}" for row in self.rows
                if row[0] not in found or not any(self.names(row, m) for m in found[row[0]].mutants)]
