// Prints the placements of the names on standard input in the format of docs/placement-conformance.csv.
import { createHash } from "node:crypto";
import { createInterface } from "node:readline";

for await (const name of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const lower = name.toLowerCase();
  const [first, second, third] = createHash("md5").update(lower, "utf8").digest();
  const [a, b, c] = [first % 64, second % 64, third % 128];
  console.log([name, a, b, c, a * 128 + c, `${a}/${b}/${c}/${lower}`].join(","));
}
