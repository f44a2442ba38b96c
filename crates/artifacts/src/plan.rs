//! What is to be done with an answer, decided before anything is stored: the heavy part, and free of side effects.

use std::{ops::Range, time::SystemTime};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    capture::META_KEY,
    item::{Item, Kind, Maker, Task},
    json::{self, Members},
    measure, redact,
    report::{LeftOut, Truncated},
    settings::{Oversize, Processing, ResourceLinks, Settings},
    shape::{Budget, Shown},
    source::Ids,
    structure::shortened,
};

/// What a text item may hold beside its text before it counts as text too.
const FREE_BYTES: u64 = 64;
/// Of an answer over the limit, what stands beside content and structured content is kept up to this many bytes.
const MAX_ASIDE_BYTES: usize = 2048;
/// Members of the protocol's own, which are kept whatever else there is while they are as short as they should be.
const PROTOCOL_MEMBERS: [&str; 2] = ["isError", "resultType"];
const MAX_PROTOCOL_MEMBER_BYTES: usize = 64;

/// One call and its surroundings.
pub(crate) struct Call<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Option<&'a RawValue>,
    pub(crate) settings: &'a Settings,
    pub(crate) ids: &'a dyn Ids,
    pub(crate) now: SystemTime,
}

/// What is to be done with one answer. Ranges are places in the answer's JSON text.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Size of the whole answer, as the settings measure it.
    pub(crate) size: u64,
    /// What could be shown of the answer is over the limit; how much of it is.
    pub(crate) oversize: Option<Truncated>,
    /// What is left of the limit for what turns out to have no artifact.
    pub(crate) budget: Budget,
    pub(crate) items: Vec<Planned>,
    pub(crate) structured: Option<PlannedStructured>,
    pub(crate) raw: RawPlan,
    /// Why the answer has no items at all.
    pub(crate) malformed: Option<&'static str>,
    /// What is shown of an answer that has no items: one JSON item.
    pub(crate) instead: Option<String>,
    /// The members of the answer, in order, that the new answer has too; all but `_meta`.
    pub(crate) members: Vec<(String, Range<usize>)>,
    /// The same of its `_meta`.
    pub(crate) meta: Vec<(String, Range<usize>)>,
    /// What of both the new answer does not have.
    pub(crate) left_out: Option<LeftOut>,
}

#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) kind: String,
    pub(crate) task: Task,
    pub(crate) show: Show,
}

/// What the new answer has in an item's place.
#[derive(Debug)]
pub(crate) enum Show {
    /// The item as sent.
    Sent(Range<usize>),
    /// A text item with the whole text, written again.
    Again(String),
    /// A text item with the front of the text.
    Front(String),
    /// A link to the artifact; without one, the item as sent, or nothing.
    Link {
        otherwise: Option<Range<usize>>,
    },
    /// A link to the artifact; without one, the front of this text, as far as the budget goes. Only as much of the text
    /// is here as the budget can need.
    LinkOrFront(String),
    /// The item as sent, and a link to the artifact, if there is one.
    SentAndLink(Range<usize>),
    Nothing,
}

#[derive(Debug)]
pub(crate) struct PlannedStructured {
    pub(crate) task: StructuredTask,
    /// Stays where it is; otherwise a note takes its place.
    pub(crate) is_kept: bool,
}

impl PlannedStructured {
    fn is_inlined(&self) -> bool {
        matches!(self.task, StructuredTask::Item(Task::Inline(_)))
    }
}

#[derive(Debug)]
pub(crate) enum StructuredTask {
    Item(Task),
    /// This text item says the same.
    SameAs(usize),
}

/// When the answer is saved as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawPlan {
    Never,
    /// When nothing else was saved.
    IfNothingElse,
    /// In any case, after the items.
    Beside,
    /// In any case, and no item on its own.
    Instead,
}

/// The plan for an answer; none when the answer is to be handed on as it is.
pub(crate) fn plan(answer: &RawValue, call: &Call<'_>) -> Option<Plan> {
    let settings = call.settings;
    let limit = settings.mcp_tool_llm_return_max_bytes;
    let size = measure::size(answer.get(), settings.size_measure);

    let parts = Parts::read(answer);
    if parts.is_unfinished
        || (size <= limit.min(settings.mcp_tool_response_save_threshold_bytes)
            && !parts.must_be_saved(settings))
    {
        return None;
    }

    let visible = size.saturating_sub(parts.hidden(settings));
    let maker = Maker {
        tool: call.tool,
        arguments: call.arguments.map(redact::arguments),
        settings,
        ids: call.ids,
        now: call.now,
    };
    let planner = Planner { answer, maker, size, is_oversize: visible > limit };
    planner.plan(parts)
}

/// An answer, taken apart.
struct Parts<'a> {
    members: Option<Members<'a>>,
    items: Vec<Item<'a>>,
    structured: Option<&'a RawValue>,
    malformed: Option<&'static str>,
    /// Not an answer yet: the upstream asks for input, or hands out a task to ask again.
    is_unfinished: bool,
}

impl<'a> Parts<'a> {
    fn read(answer: &'a RawValue) -> Self {
        let mut parts = Self {
            members: None,
            items: Vec::new(),
            structured: None,
            malformed: None,
            is_unfinished: false,
        };
        let Some(members) = Members::read(answer) else {
            parts.malformed = Some("the answer is not an object");
            return parts;
        };
        parts.structured = members.get("structuredContent");
        match members.get("content") {
            // Only without content, lest a server evade the limit by a word.
            None => {
                let kind = members.string("resultType");
                parts.is_unfinished = kind.is_some_and(|kind| kind != "complete")
                    || members.present("task").is_some();
            }
            Some(content) => match json::elements(content) {
                Some(items) => parts.items = items.into_iter().map(Item::read).collect(),
                None => parts.malformed = Some("content is not a list"),
            },
        }
        parts.members = Some(members);
        parts
    }

    /// Whether something is saved whatever its size (seed 000/1.4).
    fn must_be_saved(&self, settings: &Settings) -> bool {
        let links = settings.resource_links == ResourceLinks::Placeholder;
        let must = |item: &Item<'_>| match item.kind {
            Kind::Text(_) => false,
            Kind::Link => links,
            _ => true,
        };
        self.malformed.is_some() || self.items.iter().any(must)
    }

    /// Bytes of the items that never count as shown: they are replaced, or shown only when the whole answer is small.
    fn hidden(&self, settings: &Settings) -> u64 {
        let hidden = self.items.iter().filter(|item| match item.kind {
            Kind::Text(_) | Kind::Link | Kind::Resource { is_text: true } => false,
            Kind::Image
            | Kind::Audio
            | Kind::Resource { is_text: false }
            | Kind::Unknown
            | Kind::Malformed(_) => true,
        });
        // With its comma.
        hidden.map(|item| measure::size(item.raw.get(), settings.size_measure) + 1).sum()
    }
}

struct Planner<'a> {
    answer: &'a RawValue,
    maker: Maker<'a>,
    size: u64,
    is_oversize: bool,
}

impl<'a> Planner<'a> {
    fn plan(&self, parts: Parts<'a>) -> Option<Plan> {
        let Processing {
            enable_intelligent_processing,
            fallback_to_raw_on_error,
            save_raw_alongside_intelligent,
            ..
        } = self.maker.settings.mcp_intelligent_processing;
        let aside = self.aside(parts.members.as_ref());
        let raw = match (
            enable_intelligent_processing,
            save_raw_alongside_intelligent,
            fallback_to_raw_on_error,
        ) {
            (false, _, _) => RawPlan::Instead,
            (true, true, _) => RawPlan::Beside,
            // Only the whole answer has what is left out.
            (true, false, true) if aside.left_out.is_some() => RawPlan::Beside,
            (true, false, true) => RawPlan::IfNothingElse,
            (true, false, false) => RawPlan::Never,
        };

        let mut budget = Budget::new(self.limit());
        let mut total_bytes = 0;
        let mut items = Vec::with_capacity(parts.items.len());
        for (index, item) in parts.items.iter().enumerate() {
            let task = self.task(index, item, raw);
            let show = self.show(index, item, &task, &mut budget, &mut total_bytes);
            items.push(Planned { kind: item.type_name(), task, show });
        }
        let instead = parts.malformed.and_then(|_| self.show_whole(&mut budget, &mut total_bytes));

        let structured = parts.structured.map(|structured| PlannedStructured {
            task: self.structured(structured, &items, &parts.items, raw),
            is_kept: !self.is_oversize || structured.get() == "null",
        });

        let nothing_to_do = items.iter().all(|item| matches!(item.task, Task::Inline(_)))
            && structured.as_ref().is_none_or(PlannedStructured::is_inlined)
            && parts.malformed.is_none()
            && !self.is_oversize
            && raw != RawPlan::Instead;
        if nothing_to_do {
            return None;
        }
        let shown_bytes = budget.shown;
        Some(Plan {
            size: self.size,
            oversize: self.is_oversize.then_some(Truncated { total_bytes, shown_bytes }),
            budget,
            items,
            structured,
            raw,
            malformed: parts.malformed,
            instead,
            members: aside.members,
            meta: aside.meta,
            left_out: aside.left_out,
        })
    }

    /// What the new answer has beside its content: everything, or of an answer over the limit what is small.
    fn aside(&self, members: Option<&Members<'a>>) -> Aside {
        let mut aside = Aside::default();
        let mut left = if self.is_oversize { MAX_ASIDE_BYTES } else { usize::MAX };
        for (key, value) in members.iter().flat_map(|members| members.iter()) {
            let span = json::span(self.answer, value);
            let is_short = span.len() <= MAX_PROTOCOL_MEMBER_BYTES;
            match key {
                "content" | "structuredContent" => aside.members.push((key.to_owned(), span)),
                _ if is_short && PROTOCOL_MEMBERS.contains(&key) => {
                    aside.members.push((key.to_owned(), span));
                }
                "_meta" => {
                    let meta = Members::read(value);
                    // Our report's place is nobody else's.
                    let meta =
                        meta.iter().flat_map(Members::iter).filter(|(key, _)| *key != META_KEY);
                    for (key, value) in meta {
                        let span = json::span(self.answer, value);
                        if fits(key, &span, &mut left) {
                            aside.meta.push((key.to_owned(), span));
                        } else {
                            aside.leave_out(format!("_meta/{key}"), &span);
                        }
                    }
                }
                _ if fits(key, &span, &mut left) => aside.members.push((key.to_owned(), span)),
                _ => aside.leave_out(key.to_owned(), &span),
            }
        }
        aside
    }

    fn limit(&self) -> u64 {
        match self.maker.settings.oversize {
            Oversize::Withhold if self.is_oversize => 0,
            _ => self.maker.settings.mcp_tool_llm_return_max_bytes,
        }
    }

    fn task(&self, index: usize, item: &Item<'_>, raw: RawPlan) -> Task {
        let most = self.maker.settings.mcp_intelligent_processing.max_content_items;
        let links = self.maker.settings.resource_links == ResourceLinks::Placeholder;
        if raw == RawPlan::Instead {
            return Task::Skip("intelligent processing is disabled".into());
        }
        if index >= most && (links || !matches!(item.kind, Kind::Link)) {
            return Task::Skip(format!("answer has more than {most} items").into());
        }
        self.maker.task(index, item)
    }

    fn show(
        &self,
        index: usize,
        item: &Item<'_>,
        task: &Task,
        budget: &mut Budget,
        total_bytes: &mut u64,
    ) -> Show {
        let settings = self.maker.settings;
        let sent = json::span(self.answer, item.raw);
        let is_small = self.size <= settings.mcp_tool_llm_return_max_bytes;
        match &item.kind {
            Kind::Text(text) => {
                let Some((text, is_exact)) = text.and_then(json::string) else {
                    return Show::Nothing;
                };
                *total_bytes += text.len() as u64;
                if self.is_oversize && settings.oversize == Oversize::Withhold {
                    return Show::Link { otherwise: None };
                }
                if self.is_oversize {
                    return self.show_text(item, &text, is_exact.then_some(sent), budget);
                }
                // Half a surrogate pair makes many readers refuse the whole answer.
                if is_exact { Show::Sent(sent) } else { Show::Again(again(item, &text)) }
            }
            Kind::Resource { is_text: true } if self.is_oversize => {
                let text = item.resource_text().unwrap_or_default();
                *total_bytes += text.len() as u64;
                let limit = usize::try_from(self.limit()).unwrap_or(usize::MAX);
                // One character more than the budget ever gives, so that a cut text is known as such.
                let most = limit.saturating_add(char::MAX.len_utf8());
                Show::LinkOrFront(text[..text.floor_char_boundary(most)].to_owned())
            }
            Kind::Resource { is_text: true } => Show::Sent(sent),
            Kind::Link if self.is_oversize && !budget.take(sent.len() as u64) => Show::Nothing,
            Kind::Link => Show::Sent(sent),
            Kind::Unknown if is_small => Show::Sent(sent),
            Kind::Unknown | Kind::Malformed(_) => Show::Nothing,
            Kind::Image | Kind::Audio | Kind::Resource { is_text: false } => {
                let was_looked_at = index < settings.mcp_intelligent_processing.max_content_items
                    && settings.mcp_intelligent_processing.enable_intelligent_processing;
                match task {
                    Task::Save(artifact)
                        if matches!(item.kind, Kind::Image)
                            && sent.len() <= artifact.content().len() * 4 / 3 + MAX_ASIDE_BYTES
                            && artifact.content().len() as u64
                                <= settings.inline_image_max_bytes
                            && (!self.is_oversize
                                || (settings.oversize != Oversize::Withhold && budget.take(0))) =>
                    {
                        Show::SentAndLink(sent)
                    }
                    // What is broken helps nobody, and a strict client refuses the whole answer for it.
                    Task::Fail(_) | Task::Skip(_) if was_looked_at => Show::Nothing,
                    _ => Show::Link { otherwise: is_small.then_some(sent) },
                }
            }
        }
    }

    fn show_text(
        &self,
        item: &Item<'_>,
        text: &str,
        sent: Option<Range<usize>>,
        budget: &mut Budget,
    ) -> Show {
        if text.is_empty() {
            return Show::Nothing;
        }
        let text_size = match &item.kind {
            Kind::Text(Some(raw)) => raw.get().len(),
            _ => 0,
        };
        let beside = (item.raw.get().len() - text_size) as u64;
        match budget.text(text, if beside > FREE_BYTES { beside } else { 0 }) {
            Shown::Whole => sent.map_or_else(|| Show::Again(again(item, text)), Show::Sent),
            Shown::Front(front, mark) => Show::Front(again(item, &format!("{front}{mark}"))),
            Shown::Nothing => Show::Nothing,
        }
    }

    /// An answer without items is shown as the JSON text that it is.
    fn show_whole(&self, budget: &mut Budget, total_bytes: &mut u64) -> Option<String> {
        let text = self.answer.get();
        *total_bytes += text.len() as u64;
        match budget.text(text, 0) {
            Shown::Whole => Some(text_item(text, None, None)),
            Shown::Front(front, mark) => Some(text_item(&format!("{front}{mark}"), None, None)),
            Shown::Nothing => None,
        }
    }

    fn structured(
        &self,
        raw: &RawValue,
        planned: &[Planned],
        items: &[Item<'_>],
        plan: RawPlan,
    ) -> StructuredTask {
        if plan == RawPlan::Instead {
            return StructuredTask::Item(Task::Skip("intelligent processing is disabled".into()));
        }
        let same = planned.iter().zip(items).position(|(planned, item)| match &planned.task {
            Task::Save(artifact) if item.is_text() => is_same(raw, artifact.content()),
            _ => false,
        });
        same.map_or_else(
            || StructuredTask::Item(self.maker.structured(raw)),
            StructuredTask::SameAs,
        )
    }
}

/// What an answer has beside its content.
#[derive(Default)]
struct Aside {
    members: Vec<(String, Range<usize>)>,
    meta: Vec<(String, Range<usize>)>,
    left_out: Option<LeftOut>,
}

impl Aside {
    fn leave_out(&mut self, name: String, span: &Range<usize>) {
        let left_out = self.left_out.get_or_insert_default();
        left_out.count += 1;
        left_out.bytes += (name.len() + span.len()) as u64;
        if left_out.names.len() < LeftOut::MAX_NAMES {
            left_out.names.push(shortened(&name, LeftOut::MAX_NAME_BYTES));
        }
    }
}

/// Whether there is room for a member; it takes its room then.
fn fits(key: &str, span: &Range<usize>, left: &mut usize) -> bool {
    match left.checked_sub(key.len() + span.len()) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}

/// Whether structured content says no more than a text: the same JSON apart from white space between tokens, or the
/// text itself as an object's only member: `{"result": …}` is how Python's SDK wraps the answers of functions that return
/// a string, `{"content": …}` how the official file system server does.
fn is_same(structured: &RawValue, text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).unwrap_or_default();
    if json::minified(structured.get()).eq(json::minified(text)) {
        return true;
    }
    let members = Members::read(structured).filter(|members| members.iter().count() == 1);
    let wrapped = members.and_then(|members| json::string(members.iter().next()?.1));
    wrapped.is_some_and(|(wrapped, _)| wrapped == text)
}

/// A text item of the upstream's with another text.
fn again(item: &Item<'_>, text: &str) -> String {
    text_item(text, item.annotations(), item.meta())
}

/// A text item as JSON.
pub(crate) fn text_item(
    text: &str,
    annotations: Option<&RawValue>,
    meta: Option<&RawValue>,
) -> String {
    #[derive(Serialize)]
    struct TextItem<'a> {
        r#type: &'static str,
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<&'a RawValue>,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<&'a RawValue>,
    }
    let item = TextItem { r#type: "text", text, annotations, meta };
    serde_json::to_string(&item).expect("strings and JSON can be written as JSON")
}
