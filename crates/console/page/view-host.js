// Shows the View of a tool. The rules are in the program; this module passes messages on and does what the program asks.

import { data, result, text } from './api.js';
import { parse, stringify } from './json.js';

const ORDER_FAILED = 'the console lost the View';
const MAX_MESSAGE_BYTES = 10 * 1024 * 1024;
const encoder = new TextEncoder();

/**
 * Shows the View of a call in `container`: `call` is the id of its record, `tool` its name, `uri` the View's. `consent(text, detail)` asks
 * the user, and `told(kind, value)` learns of log messages, tools of the View, errors and notes. Returns `{ close, update, callTool, ping, id }`.
 */
export async function openView(container, { call, tool, uri, consent = ask, told = () => {} }) {
  const context = surroundings(container);
  const [record, contents] = await Promise.all([data(`calls/${encodeURIComponent(call)}`), result('resources/read', { uri })]);
  const view = await post('views', { tool, contents, context, call });
  for (const note of view.notes) told('note', note);
  if (!view.frame) throw new Error('this server has no second port for Views (console.views_port)');
  const path = `views/${encodeURIComponent(view.id)}`;
  const origin = new URL(view.frame).origin;
  const running = new Map();
  const answers = new Map();
  let nextCall = 1;
  let isClosed = false;
  let queue = Promise.resolve();

  const box = document.createElement('div');
  box.className = view.prefersBorder === false ? 'view' : 'view view-border';
  const frame = document.createElement('iframe');
  frame.title = `View of ${tool}`;
  frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms');
  if (view.allow) frame.setAttribute('allow', view.allow);
  frame.referrerPolicy = 'no-referrer';
  box.append(frame);

  // What happens is told in order, one thing after the other.
  const happened = (what) => {
    queue = queue.then(() => (isClosed ? undefined : post(path, what))).catch((error) => fail(error));
    return queue;
  };
  const fail = (error) => {
    if (!isClosed) told('error', error?.message ?? ORDER_FAILED);
    remove();
  };
  const remove = () => {
    isClosed = true;
    clearInterval(watch);
    removeEventListener('message', onMessage);
    for (const controller of running.values()) controller.abort();
    for (const { reject } of answers.values()) reject(new Error('the View was closed'));
    box.remove();
  };
  const onMessage = (event) => {
    if (event.source !== frame.contentWindow || event.origin !== origin) return;
    let text;
    try {
      text = JSON.stringify(event.data);
    } catch {
      text = undefined;
    }
    if (text === undefined) return;
    const bytes = text.length > MAX_MESSAGE_BYTES / 3 ? encoder.encode(text).length : text.length;
    if (bytes > MAX_MESSAGE_BYTES) {
      const id = event.data?.id;
      const isRequest = typeof event.data?.method === 'string' && (typeof id === 'string' || Number.isInteger(id));
      happened({ tooLong: { id: isRequest ? id : null, bytes } });
    } else {
      happened({ message: event.data });
    }
  };
  const send = (message) => frame.contentWindow?.postMessage(message, origin);

  const perform = {
    openLink: async ({ url }) => {
      if (!(await consent('This View wants to open a link.', url))) throw denied('Link opening denied by user');
      window.open(url, '_blank', 'noopener,noreferrer');
      return {};
    },
    setDisplayMode: async (mode) => {
      show(mode);
      return { mode };
    },
    download: async (files) => {
      if (!(await consent('This View wants to save files.', files.map((file) => file.name).join('\n')))) throw denied('Download denied by user');
      for (const file of files) save(file);
      return {};
    },
    callTool: ({ tool: name, arguments: given, wantsProgress }, { token, signal }) => {
      const onmessage = ({ method, params }) => {
        if (!wantsProgress || method !== 'notifications/progress') return;
        const { progressToken, ...progress } = params;
        happened({ progress: { token, params: progress } });
      };
      return result('tools/call', { name, arguments: given }, { signal, onmessage });
    },
    forward: ({ method, params }, { signal }) => result(method, params, { signal }),
    sample: async () => {
      throw denied('this host has no model');
    },
  };
  const request = async (asked) => {
    const { token } = asked;
    const [name] = Object.keys(asked).filter((key) => key !== 'token');
    const controller = new AbortController();
    running.set(token, controller);
    try {
      if (name === 'addMessage') {
        const { content } = asked.addMessage;
        const text = content.map((item) => item.text ?? `[${item.type}]`).join('\n');
        if (!(await consent('This View wants to send a message as you.', text))) throw denied('Message denied by user');
        await happened({ addMessage: { token, content } });
        told('message', content);
        return;
      }
      const result = await perform[name](asked[name], { token, signal: controller.signal });
      await happened({ answer: { token, result } });
    } catch (error) {
      if (!controller.signal.aborted) {
        const code = error?.data?.code ?? -32000;
        await happened({ answer: { token, error: { code, message: error?.data?.message ?? String(error?.message ?? error) } } });
      }
    } finally {
      running.delete(token);
    }
  };
  const show = (mode) => {
    box.dataset.mode = mode;
  };
  const apply = {
    send,
    sendToSandbox: send,
    resize: ({ width, height }) => {
      if (height !== undefined) frame.style.height = `${height}px`;
      if (width !== undefined) frame.style.width = `${width}px`;
    },
    showMode: show,
    request,
    cancel: ({ token }) => running.get(token)?.abort(),
    modelContext: (value) => told('modelContext', value),
    log: (entry) => told('log', entry),
    appTools: (tools) => told('appTools', tools),
    appAnswer: ({ call: number, result, error }) => {
      const waiting = answers.get(number);
      answers.delete(number);
      if (error === undefined) waiting?.resolve(result);
      else waiting?.reject(new Error(error));
    },
    alive: (isAlive) => told('alive', isAlive),
    remove: ({ reason }) => {
      told('removed', reason);
      remove();
    },
  };
  const poll = async () => {
    let after = 0;
    while (!isClosed) {
      const { effects, closed } = await data(`${path}?after=${after}`);
      for (const effect of effects) {
        after = effect.n;
        const [name] = Object.keys(effect).filter((key) => key !== 'n');
        apply[name]?.(effect[name]);
      }
      if (closed && effects.length === 0) remove();
    }
  };

  // A page that is left takes its frame along without a word.
  const watch = setInterval(() => {
    if (box.isConnected) return;
    post(path, { gone: {} }).catch(() => {});
    remove();
  }, 1000);

  // The listener is there before the frame is: the proxy says once that it is ready.
  addEventListener('message', onMessage);
  frame.src = view.frame;
  container.append(box);
  poll().catch(fail);
  happened({ input: record.arguments?.kept ? parse(record.arguments.json) : {} });
  // The View gets what the server said, of which the model is shown a part.
  const said = await text(`calls/${encodeURIComponent(call)}/${record.upstream ? 'said' : 'shown'}`).catch(() => undefined);
  if (said === undefined) happened({ cancelled: 'the call has no result' });
  else happened({ result: parse(said) });

  return {
    id: view.id,
    /** Tells the View that its surroundings changed. */
    update: (changed) => happened({ context: changed }),
    /** Calls a tool of the View. */
    callTool: (name, given = {}) =>
      new Promise((resolve, reject) => {
        const number = nextCall++;
        answers.set(number, { resolve, reject });
        happened({ callAppTool: { call: number, name, arguments: given } });
      }),
    /** Asks the View whether it is alive; `told('alive', …)` follows. */
    ping: () => happened({ ping: {} }),
    /** Lets the View save its state, and removes it. */
    close: (reason = 'the page is closed') => happened({ teardown: { reason } }),
  };
}

/** Numbers keep the digits that the server wrote. */
function post(path, body) {
  return data(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: stringify(body) });
}

function denied(message) {
  return new Error(message);
}

/** What the View is told of the page. */
function surroundings(container) {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  return {
    theme: dark ? 'dark' : 'light',
    displayMode: 'inline',
    availableDisplayModes: ['inline', 'fullscreen'],
    containerDimensions: { width: Math.max(200, container.clientWidth || container.parentElement?.clientWidth || 600), maxHeight: 5000 },
    locale: navigator.language,
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    userAgent: 'marquetry-console',
    platform: 'web',
    deviceCapabilities: { touch: matchMedia('(pointer: coarse)').matches, hover: matchMedia('(hover: hover)').matches },
  };
}

function ask(text, detail) {
  return Promise.resolve(window.confirm(`${text}\n\n${detail}`));
}

function save({ name, mimeType, data, link }) {
  if (link !== undefined) {
    if (/^https?:\/\//i.test(link)) window.open(link, '_blank', 'noopener,noreferrer');
    return;
  }
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const url = URL.createObjectURL(new Blob([bytes], { type: mimeType ?? 'application/octet-stream' }));
  const anchor = document.createElement('a');
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
