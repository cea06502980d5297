// A view kept by pg_ivm: `node pg_ivm.mjs FOLDER ASKED`, the packages' folder and what is asked, prints the view before and after, and what the second part took, as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [folder, path] = process.argv.slice(2);
const require = createRequire(join(resolve(folder), "package.json"));
const { PGlite } = require("@electric-sql/pglite");
const { pg_ivm } = require("@electric-sql/pglite-pg_ivm");
const asked = JSON.parse(readFileSync(path, "utf8"));
const tables = Object.entries(asked.tables);
const [NUMERIC, FLOAT] = [1700, 701]; // What PostgreSQL calls these types on the wire.

/** Insert the rows of a file, which brings the view up to date in the same statement. */
const insert = (database, table, file) =>
  database.query(`COPY ${table} FROM '/dev/blob' (FORMAT csv)`, [], { blob: new Blob([readFileSync(file)]) });

/** The view's rows as texts by which they can be compared: `plain` in continuous.py. */
async function rows(database) {
  const found = await database.query(`SELECT ${asked.output.join(", ")} FROM kept`, [], { rowMode: "array" });
  const text = (value, { dataTypeID }) =>
    value === null ? "None" : [NUMERIC, FLOAT].includes(dataTypeID) ? Number(value).toFixed(2) : String(value);
  return found.rows.map((row) => row.map((value, n) => text(value, found.fields[n])));
}

async function answer() {
  const database = await PGlite.create({ extensions: { pg_ivm } });
  await database.exec("CREATE EXTENSION pg_ivm");
  for (const [table, { columns }] of tables) {
    await database.exec(`CREATE TABLE ${table} (${Object.entries(columns).map((column) => column.join(" ")).join(", ")})`);
    await insert(database, table, join(asked.place, table, "first.csv"));
  }
  await database.exec("ANALYZE");
  await database.query("SELECT pgivm.create_immv('kept', $1)", [asked.query]);
  const before = await rows(database);
  const began = performance.now();
  const spent = process.cpuUsage();
  for (const [table, { growing }] of tables) if (growing) await insert(database, table, join(asked.place, `${table}.csv`));
  const { user, system } = process.cpuUsage(spent);
  const figures = { seconds: (performance.now() - began) / 1000, cpu: (user + system) / 1e6, refused: null };
  return { ...figures, views: [before, await rows(database)] };
}

/** Why it will not, in its own words. */
const refusal = ({ message, hint }) => ({
  seconds: null, cpu: null, right: null, refused: [message.split("\n")[0], hint].filter(Boolean).join(": "),
});

// The database would keep the process alive for a while.
process.stdout.write(JSON.stringify(await answer().catch(refusal)) + "\n", () => process.exit());
