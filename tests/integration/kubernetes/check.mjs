// Holds manifests against Kubernetes' own schemas, and those of the Prometheus operator and
// cert-manager: values by the schemas, and names of fields, which the schemas leave open, by the
// types made of them.
//
//   check.mjs TOOLS DOCUMENTS.json     DOCUMENTS.json: {"where": [object, …], …}
//
// A line for each complaint on standard output; ends with 1 where there is one.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [tools, file] = process.argv.slice(2).map((path) => resolve(path));
const sets = JSON.parse(readFileSync(file, 'utf8'));
const packages = {
  'monitoring.coreos.com': '@kubernetes-models/prometheus-operator/',
  'cert-manager.io': '@kubernetes-models/cert-manager/',
};

let complaints = 0;
const complain = (text) => {
  console.log(text);
  ++complaints;
};

const imports = new Map();
const typed = [];
for (const [where, documents] of Object.entries(sets)) {
  for (const document of documents) {
    const { apiVersion, kind } = document;
    const name = `${where}: ${kind} ${document.metadata?.name}`;
    const path = `${packages[apiVersion.split('/')[0]] ?? 'kubernetes-models/'}${apiVersion}/${kind}`;
    let model;
    try {
      model = (await import(pathToFileURL(join(tools, 'node_modules', `${path}.js`))))[kind];
    } catch (error) {
      complain(`${name}: no schema of ${apiVersion}: ${error.message}`);
      continue;
    }
    const type = imports.get(path) ?? `T${imports.size}`;
    imports.set(path, type);
    typed.push({ name, kind, type, document });
    try {
      new model(structuredClone(document)).validate();
    } catch (error) {
      complain(`${name}: ${error.message}`);
    }
  }
}

const folder = mkdtempSync(join(tools, 'check-'));
try {
  const lines = [...imports].map(
    ([path, type]) => `import type {I${path.split('/').at(-1)} as ${type}} from ${JSON.stringify(path)};`);
  const first = lines.length;
  typed.forEach(({ type, document }, i) => lines.push(`export const v${i}: ${type} = ${JSON.stringify(document)};`));
  writeFileSync(join(folder, 'manifests.ts'), lines.join('\n'));
  const done = spawnSync(process.execPath, [
    join(tools, 'node_modules/typescript/bin/tsc'), '--noEmit', '--strict', '--module', 'nodenext',
    '--moduleResolution', 'nodenext', '--target', 'es2022', '--skipLibCheck', '--pretty', 'false',
    join(folder, 'manifests.ts')], { encoding: 'utf8', cwd: folder });
  for (const line of done.stdout.split('\n').filter((l) => l.includes('error'))) {
    const at = /\((\d+),\d+\): error TS\d+: (.*)/.exec(line);
    complain(at ? `${typed[Number(at[1]) - 1 - first]?.name}: ${at[2]}` : line);
  }
  if (done.status !== 0 && complaints === 0) complain(`tsc ended with ${done.status}: ${done.stdout}${done.stderr}`);
} finally {
  rmSync(folder, { recursive: true });
}
process.exit(complaints === 0 ? 0 : 1);
