// Put the license of the project into the package.
import { copyFileSync } from "node:fs";

copyFileSync(new URL("../../../LICENSE", import.meta.url), new URL("../LICENSE", import.meta.url));
