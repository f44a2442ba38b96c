// Resources, prompts, artifacts and knowledge.

import { list, result } from './api.js';
import { button, bytes, chosen, empty, failure, fill, filterBox, h, link, sideList, table, to } from './dom.js';
import { createForm } from './form.js';
import { isObject } from './json.js';
import { literal, markdown, resourceBlock, resultView, tree, visible } from './result.js';

export async function resources(context) {
  const uri = context.query.get('uri');
  const [all, templates] = await Promise.all([list('resources/list', 'resources'), list('resources/templates/list', 'resourceTemplates').catch(() => [])]);
  const side = sideList(context, 'Resources', all, {
    text: (it) => `${it.uri} ${it.name ?? ''} ${it.title ?? ''} ${it.mimeType ?? ''}`, href: (it) => `#/resources?uri=${encodeURIComponent(it.uri)}`,
    name: (it) => it.title ?? it.name ?? it.uri, isCurrent: (it) => it.uri === uri, note: `, ${templates.length} templates`,
  });
  const input = h('input', { type: 'text', value: uri ?? '', 'aria-label': 'URI', placeholder: 'URI', class: 'grow' });
  const address = h('form.bar', { onsubmit: (event) => { event.preventDefault(); location.hash = `#/resources?uri=${encodeURIComponent(input.value)}`; } }, input, h('button', { type: 'submit' }, 'Read'));
  const place = h('div');
  if (uri) {
    const read = async () => {
      try {
        const found = await result('resources/read', { uri });
        fill(place, (found.contents ?? []).map(resourceBlock), found.contents?.length ? null : empty('The resource has no contents.'));
      } catch (error) {
        fill(place, failure(error, read));
      }
    };
    await read();
  } else fill(place, all.length ? empty('Choose a resource.') : empty('No server lists a resource.', link('#/servers', 'Servers')));
  const known = templates.length ? h('details', h('summary', 'Templates'), table('Templates', ['Template', 'Name', 'What it is'], templates.map((it) => [button(it.uriTemplate, () => { input.value = it.uriTemplate; input.focus(); }, { class: 'linklike' }), it.name, it.description ?? '']))) : null;
  return chosen(side, uri !== null, ['#/resources', 'All resources'], address, known, place);
}

export async function prompts(context) {
  const all = await list('prompts/list', 'prompts');
  const side = sideList(context, 'Prompts', all, {
    text: (it) => `${it.name} ${it.title ?? ''} ${it.description ?? ''}`, href: (it) => to('prompts', it.name), name: (it) => it.title ?? it.name, isCurrent: (it) => it.name === context.name,
  });
  const prompt = all.find((it) => it.name === context.name);
  const detail = prompt ? onePrompt(prompt) : context.name ? empty(`No prompt is called ${context.name}.`) : all.length ? empty('Choose a prompt.') : empty('No server offers a prompt.');
  return chosen(side, Boolean(context.name), ['#/prompts', 'All prompts'], detail);
}

/** The arguments of a prompt are texts. */
function onePrompt(prompt) {
  const properties = Object.fromEntries((prompt.arguments ?? []).map((it) => [it.name, { type: 'string', title: it.title, description: it.description }]));
  const required = (prompt.arguments ?? []).filter((it) => it.required).map((it) => it.name);
  const form = createForm({ type: 'object', properties, required, additionalProperties: false });
  const place = h('div', { 'aria-live': 'polite' });
  const get = async () => {
    if (form.check().length) { form.focusFirstError(); return; }
    try {
      const found = await result('prompts/get', { name: prompt.name, arguments: form.get() ?? {} });
      fill(place, h('h2', 'Messages'), found.description ? h('p', found.description) : null, (found.messages ?? []).map((it) => h('section.card', h('h3', it.role), resultView({ content: [it.content].flat() }))));
    } catch (error) {
      fill(place, failure(error, get));
    }
  };
  return [prompt.description ? markdown(prompt.description) : null, form.element, h('p', button('Get', get, { class: 'primary', 'data-run': '' })), place];
}

/** Calls a tool of this server, whose answer has structured content. */
async function own(name, args) {
  const found = await result('tools/call', { name, arguments: args });
  if (found.isError) throw new Error(found.content?.[0]?.text ?? 'the tool failed');
  return found;
}

export async function artifacts(context) {
  if (context.name) return oneArtifact(context);
  const place = h('div');
  const draw = async (words) => {
    const found = (await own('list_artifacts', { limit: 200, details: true, ...(words ? { filter: words } : {}) })).structuredContent ?? {};
    const all = found.artifacts ?? [];
    fill(place, all.length ? table('Artifacts', ['Name', 'Type', 'Size', 'Version', 'Origin'], all.map((it) => [link(to('artifacts', it.name), it.name), it.mime_type ?? '', bytes(it.size_bytes), it.version ?? '', it.details?.source_tool_name ?? ''])) : empty('No answer was saved as an artifact yet.', 'Answers that are too large or not text become artifacts.'),
      found.next_cursor ? h('p.muted', 'the first 200; filter to see others') : null);
  };
  let asked;
  let reload;
  const filter = filterBox(context, 'Filter artifacts', (words) => {
    clearTimeout(asked);
    asked = setTimeout(() => draw(words).catch((error) => fill(place, failure(error, context.again))), 200);
  });
  await draw(filter.value);
  // Many are saved at a time; the list is fetched once for all.
  context.on('artifact', () => {
    reload ??= setTimeout(() => { reload = undefined; draw(filter.value).catch((error) => fill(place, failure(error, context.again))); }, 300);
  });
  context.onLeave(() => { clearTimeout(asked); clearTimeout(reload); });
  return [h('div.bar', filter), place];
}

async function oneArtifact(context) {
  const version = context.query.get('version');
  const wanted = { name: context.name, ...(version === null ? {} : { version: Number(version) }) };
  const about = ((await own('list_artifacts', { filter: context.name, details: true })).structuredContent?.artifacts ?? []).find((it) => it.name === context.name);
  const newest = about?.version ?? 0;
  const versions = Array.from({ length: Math.min(50, newest + 1) }, (_, index) => newest - index);
  const uri = `artifact://${context.name}?version=${version ?? newest}`;
  const place = h('div');
  try {
    const found = await result('resources/read', { uri });
    fill(place, (found.contents ?? []).map(resourceBlock));
  } catch {
    // A large artifact is not read whole; its beginning is.
    try {
      fill(place, h('p.muted', 'It is too large to be read whole; this is its beginning.'), resultView(await own('read_artifact', wanted)));
    } catch (error) {
      fill(place, failure(error, context.again));
    }
  }
  return [
    h('p', link('#/artifacts', '‹ All artifacts')),
    versions.length > 1 ? h('p', 'Versions: ', versions.map((it) => [link(`#/artifacts/${encodeURIComponent(context.name)}?version=${it}`, String(it)), ' '])) : null,
    about ? h('details', h('summary', `${about.mime_type ?? ''} ${bytes(about.size_bytes)}, version ${version ?? newest}`), tree(about)) : null, place,
  ];
}

export async function knowledge(context) {
  const all = await list('tools/list', 'tools');
  if (!all.some((it) => it.name === 'am7_vector_search')) return empty('This server has no documents.', 'Index some with ', h('code', 'marquetry index FOLDER'), ', and switch [knowledge] on.');
  const input = h('input', { type: 'search', class: 'grow', 'aria-label': 'Question', placeholder: 'a question or a few words', value: context.query.get('q') ?? '' });
  const place = h('div', { 'aria-live': 'polite' });
  const search = async () => {
    if (!input.value.trim()) { fill(place, empty('Ask something of the documents.')); return; }
    fill(place, 'searching…');
    try {
      const found = await own('am7_vector_search', { query: input.value });
      const hits = passages(found.structuredContent);
      fill(place, hits.length ? hits.map(passage) : found.structuredContent === undefined ? resultView(found) : empty('No passage fits.', 'Try other words.'),
        h('details', h('summary', 'What the model was given'), resultView({ content: found.content })));
    } catch (error) {
      fill(place, failure(error, search));
    }
  };
  const form = h('form.bar', { onsubmit: (event) => { event.preventDefault(); context.setQuery({ q: input.value }, { replace: false }); search(); } }, input, h('button', { type: 'submit', 'data-run': '' }, 'Search'));
  await search();
  return [form, place];
}

function passages(structured) {
  const lists = Object.values(structured ?? {}).filter((it) => Array.isArray(it) && it.every(isObject));
  return lists[0] ?? [];
}

/** One passage with its source and its ranks. */
function passage(hit) {
  const text = hit.content ?? hit.text ?? hit.passage ?? '';
  const uri = hit.uri ?? hit.sourceUri ?? hit.citation?.uri;
  const rest = Object.entries(hit).filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value) && value !== text && value !== uri);
  return h('article.card', h('h2', uri ? link(`#/resources?uri=${encodeURIComponent(uri)}`, ...visible(String(hit.title ?? hit.name ?? uri))) : visible(String(hit.title ?? hit.name ?? 'passage'))),
    literal(String(text), 'Passage'), h('p.muted', rest.slice(0, 12).map(([key, value]) => `${key} ${typeof value === 'number' && !Number.isInteger(value) ? value.toFixed(3) : value}`).join(' · ')), h('details', h('summary', 'All of it'), tree(hit)));
}
