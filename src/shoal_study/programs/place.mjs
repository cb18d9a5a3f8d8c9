// Prints the buckets of the lower-case names on standard input, one line of comma-separated numbers for each name:
// three letters, two sums, range, server, a, b, c, store. Arguments: members per range, servers, stores of the 64 data sources.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const [size, servers] = process.argv.slice(2, 4).map(Number);
const stores = process.argv[4].split(",");
const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz_";
const sum = (bytes) => bytes.reduce((total, byte) => total + byte, 0);
const names = readFileSync(0, "utf8").split("\n").slice(0, -1);
names.forEach((name, number) => {
  const characters = [...name];
  const letters = [0, 1, 2].map((at) => (characters[at] ? alphabet.indexOf(characters[at]) : -1));
  const bytes = [...Buffer.from(name, "utf8")];
  const range = Math.floor(number / size);
  const [first, second, third] = createHash("md5").update(name, "utf8").digest();
  const hashed = [first % 64, second % 64, third % 128, stores[first % 64]];
  console.log([...letters, sum(bytes) % 31, sum(bytes.slice(1)) % 33, range, range % servers, ...hashed].join(","));
});
