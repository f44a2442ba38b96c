// Shows the View of a tool. The frame and its messages are the part of View hosting.

import { empty, fill } from './dom.js';

/** Shows the View of a call in `container`: `call` is the id of its record, `tool` its name, `uri` the View's. */
export async function openView(container, { uri }) {
  fill(container, empty(`The tool has the View ${uri}. This server shows no Views yet.`));
}
