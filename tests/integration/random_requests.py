"""Structured-random messages of the API, made from its descriptors. A half is what a caller could mean:
small cases of every operator. The other half has any field set to anything of its type."""

import string

from google.protobuf import descriptor

F = descriptor.FieldDescriptor
INTEGERS = {F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT32, F.TYPE_UINT64}
LIMITS = {F.TYPE_INT32: (-2**31, 2**31 - 1), F.TYPE_INT64: (-2**63, 2**63 - 1), F.TYPE_UINT32: (0, 2**32 - 1),
          F.TYPE_UINT64: (0, 2**64 - 1)}
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-308, 5e-324, 1e308, float("inf"), float("-inf"), float("nan")]
TEXTS = ["", "a", "builtin", "all", "onednn", "openblas", "planted/tail", "normal:1", "uniform:-1:1", "zeros", "ones",
         "gemm", "softmax", "cpu:0", "cpu:*", "*", "cuda:0", "smoke", "selftest", "nchw", "gelu", "sum",
         "actual[0:2,0:2]", "expected", "jobs/a", "devices/cpu:0", "baselines/b", "../../etc/passwd", "/etc/shadow",
         "jobs/../../x", "a\x00b", "\x1b[2J\x1b[31mred", "line\nline", "\u202egnp.exe", "é" * 200, "x" * 65536,
         "%s%n", "'; DROP TABLE jobs; --", "1e9", "-1", "9" * 40, "[" * 2000, "label.a=b", "state=RUNNING"]
MOST_DEPTH = 5
# What must be a word, and one of few.
KINDS = {"ElementwiseProblem": ["add", "silu_mul", "gelu"], "ReduceProblem": ["sum", "max", "argmax"]}


class Requests:
    """Makes messages by chance alone. `known` are the names that calls have returned."""

    def __init__(self, chance, types):
        self.chance = chance
        self.types = types  # the module of types.proto
        self.known = ["jobs/zzzzzzzz", "devices/cpu:0", "baselines/none"]

    # ---- anything

    def text(self):
        draw = self.chance.random()
        if draw < 0.6:
            return self.chance.choice(TEXTS)
        if draw < 0.8:
            return self.chance.choice(self.known)
        return "".join(self.chance.choice(string.printable) for _ in range(self.chance.randrange(1, 40)))

    def integer(self, kind):
        lowest, highest = LIMITS[kind]
        draw = self.chance.random()
        if draw < 0.7:
            return self.chance.randrange(0, 40)
        if draw < 0.8:
            return max(lowest, -self.chance.randrange(1, 40))
        return self.chance.choice([lowest, highest, highest - 1, highest // 2])

    def scalar(self, field):
        kind = field.type
        if kind in INTEGERS:
            return self.integer(kind)
        if kind in (F.TYPE_DOUBLE, F.TYPE_FLOAT):
            return self.chance.choice(NUMBERS) if self.chance.random() < 0.4 else self.chance.uniform(0, 4)
        if kind == F.TYPE_BOOL:
            return self.chance.random() < 0.5
        if kind == F.TYPE_ENUM:
            values = [value.number for value in field.enum_type.values]
            return self.chance.choice(values + [99, -1, 2**31 - 1] if self.chance.random() < 0.1 else values)
        if kind == F.TYPE_BYTES:
            return self.chance.randbytes(self.chance.randrange(0, 64))
        return self.text()

    def anything(self, message, depth=0, share=0.4):
        """Sets a share of the message's fields."""
        for field in message.DESCRIPTOR.fields:
            if self.chance.random() > share:
                continue
            entry = field.message_type is not None and field.message_type.GetOptions().map_entry
            if entry:
                self.entries(getattr(message, field.name), field, depth)
            elif field.label == F.LABEL_REPEATED:
                values = getattr(message, field.name)
                for _ in range(self.chance.randrange(0, 4)):
                    if field.message_type is None:
                        values.append(self.scalar(field))
                    elif depth < MOST_DEPTH:
                        self.anything(values.add(), depth + 1, share)
            elif field.message_type is None:
                setattr(message, field.name, self.scalar(field))
            elif depth < MOST_DEPTH:
                getattr(message, field.name).SetInParent()
                self.anything(getattr(message, field.name), depth + 1, share)

    def entries(self, values, field, depth):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for _ in range(self.chance.randrange(0, 3)):
            if value.message_type is None:
                values[self.scalar(key)] = self.scalar(value)
            elif depth < MOST_DEPTH:
                self.anything(values[self.scalar(key)], depth + 1)

    # ---- what a caller could mean

    def problem(self, case):
        """A small problem of any operator, all its numbers said."""
        field = self.chance.choice(case.DESCRIPTOR.oneofs_by_name["problem"].fields)
        problem = getattr(case, field.name)
        problem.SetInParent()
        if problem.DESCRIPTOR.name in KINDS:
            problem.kind = self.chance.choice(KINDS[problem.DESCRIPTOR.name])
        for number in problem.DESCRIPTOR.fields:
            required = any(option.name == "must_be_set" and value
                           for option, value in number.GetOptions().ListFields())
            if number.type != F.TYPE_INT64 or not (required or self.chance.random() < 0.05):
                continue
            if number.label == F.LABEL_REPEATED:
                getattr(problem, number.name).extend([1 if number.name == "kernel" else self.chance.choice([2, 4, 8])] * 2)
            else:
                setattr(problem, number.name, self.chance.choice([8, 16, 32]))

    def job(self, request):
        """A job of one to three cases. It may still ask for what no operator does."""
        spec = request.spec
        for _ in range(self.chance.randrange(1, 4)):
            case = spec.cases.cases.add()
            self.problem(case)
            case.dtype = self.chance.choice([self.types.DTYPE_FP32, self.types.DTYPE_BF16, self.types.DTYPE_FP16])
            case.provider = self.chance.choice(["builtin", "builtin", "all", "onednn", "openblas"])
            if self.chance.random() < 0.3:
                case.pattern = self.chance.choice(["normal:1", "uniform:-1:1", "normal:1e-3"])
            if self.chance.random() < 0.3:
                case.seed = self.integer(F.TYPE_UINT64)
            if self.chance.random() < 0.2:
                case.repeats = self.chance.randrange(1, 4)
            if self.chance.random() < 0.2:
                case.name = "case " + str(self.chance.randrange(100))
        if self.chance.random() < 0.2:
            spec.labels["run"] = str(self.chance.randrange(100))
        if self.chance.random() < 0.2:
            spec.priority = self.chance.randrange(0, 3)
        if self.chance.random() < 0.3:
            request.request_id = "request-" + str(self.chance.randrange(10**9))

    def change(self, message):
        """One field anywhere below the message becomes anything."""
        fields = [field for field, _ in message.ListFields()] or message.DESCRIPTOR.fields
        field = self.chance.choice(fields)
        inside = field.message_type is not None and not field.message_type.GetOptions().map_entry
        if inside and field.label == F.LABEL_REPEATED:
            if len(getattr(message, field.name)) > 0:
                self.change(self.chance.choice(getattr(message, field.name)))
        elif inside and self.chance.random() < 0.8:
            self.change(getattr(message, field.name))
        else:
            self.anything(message, MOST_DEPTH - 1, 0.15)
