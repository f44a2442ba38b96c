//! Plans the capture of an answer before anything is stored: the expensive part, without side
//! effects.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    time::SystemTime,
};

use marquetry_text_format::shortened;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    audience::Audience,
    item::{ArtifactMaker, Item, Kind, Task},
    json::{self, Members, Tail},
    measure,
    metadata::Metadata,
    mime, notice, redact,
    report::{META_KEY, OmittedMembers, StructuredShown, Truncated},
    settings::{Oversize, Processing, ResourceLinks, Settings, SizeMeasure, TextResources},
    shape::{Budget, Shown},
    shorten::{ShortenedJson, shorten},
    source::Ids,
    store::NewArtifact,
};

/// Up to this many bytes beside the text of a text item do not count; if there are more, all of
/// them count. An ordinary item has 23 (`{"type":"text","text":}`) and white space; more bytes are
/// annotations or `_meta`, which an upstream could fill without end.
const FREE_BYTES: u64 = 64;
/// Size of the members beside content and structured content that an answer over the limit keeps,
/// in bytes.
const MAX_OTHER_MEMBERS_BYTES: usize = 2048;
/// A `serverInfo` of more bytes counts like any other member.
const MAX_SERVER_INFO_BYTES: usize = 2048;
/// Size of the members beside the data of an image that stays in the answer, in bytes.
const MAX_IMAGE_MEMBERS_BYTES: usize = 2048;
/// Size that structured content may have in an answer over the limit even if less of the budget is
/// left, in bytes.
const MIN_SHORTENED_BYTES: usize = 2048;
/// An answer over the limit shows texts up to this part of the limit before it shows the beginning
/// and end of longer ones, and these texts together up to half of it.
const SMALL_PART: u64 = 8;
/// Reason why a small item has no artifact.
const SMALL: &str = "small, and shown whole";
/// Reason why an item has no artifact although it is not shown.
const NOT_SAVED: &str = "saving is switched off by the setting save";
/// Start of an undecodable item that is shown when its whole JSON does not fit, in bytes.
const UNDECODABLE_START_BYTES: usize = 256;
/// Protocol members that are kept if they have at most [`MAX_PROTOCOL_MEMBER_BYTES`], because they
/// change what the content means: the model must know that a call failed. SAM loses `isError` when
/// it saves an answer.
const PROTOCOL_MEMBERS: [&str; 2] = ["isError", RESULT_TYPE];
const MAX_PROTOCOL_MEMBER_BYTES: usize = 64;
/// The keys of the result's type and of the server's name and version, which results have since
/// revision 2026-07-28. They do not count, so that the size of an answer does not depend on the
/// upstream's revision.
const RESULT_TYPE: &str = "resultType";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// A call, its settings, and the sources of ids and time.
pub(crate) struct Call<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Option<&'a RawValue>,
    pub(crate) output_schema: Option<&'a Value>,
    pub(crate) settings: &'a Settings,
    pub(crate) audience: &'a Audience,
    pub(crate) ids: &'a dyn Ids,
    pub(crate) now: SystemTime,
}

/// Plan of the capture of one answer. Ranges are positions in the answer's JSON text.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Size of the whole answer, measured by `size_measure`.
    pub(crate) size: u64,
    /// Limit of the shown part, in bytes: that of the settings or of the audience.
    pub(crate) limit: u64,
    /// The answer is over the limit: sizes of its text and of the shown part.
    pub(crate) oversize: Option<Truncated>,
    /// Bytes left under the limit. An item whose artifact cannot be saved may use them.
    pub(crate) budget: Budget,
    pub(crate) items: Vec<PlannedItem>,
    /// The items that are not examined one by one.
    pub(crate) tail: Option<PlannedTail>,
    /// The artifact of the items that are saved together, if there are any.
    pub(crate) bundle: Option<Task>,
    pub(crate) structured: Option<PlannedStructured>,
    pub(crate) whole_answer: WholeAnswer,
    /// Reason why the answer has no items.
    pub(crate) malformed: Option<&'static str>,
    /// The JSON item that is shown for an answer without items.
    pub(crate) fallback_item: Option<String>,
    /// Members that the new answer keeps, in order, except `_meta`.
    pub(crate) members: Vec<(String, Range<usize>)>,
    /// Members of `_meta` that the new answer keeps.
    pub(crate) meta: Vec<(String, Range<usize>)>,
    /// Members of both that are left out.
    pub(crate) left_out: Option<OmittedMembers>,
}

impl Plan {
    /// Shows the answer as sent, whatever its size.
    pub(crate) fn show_as_sent(&mut self) {
        self.oversize = None;
        self.left_out = None;
        if let Some(structured) = &mut self.structured {
            structured.shown = StructuredShown::Whole;
            structured.shortened = None;
        }
    }
}

#[derive(Debug)]
pub(crate) struct PlannedItem {
    pub(crate) kind: String,
    pub(crate) task: Task,
    pub(crate) show: Show,
}

impl PlannedItem {
    fn is_rewritten_image(&self) -> bool {
        self.kind == "image" && matches!(self.show, Show::Rewritten(_))
    }
}

/// Items that are not examined one by one.
#[derive(Debug)]
pub(crate) struct PlannedTail {
    pub(crate) count: usize,
    /// Position of the items, including commas; `None` if they are not shown.
    pub(crate) shown: Option<Range<usize>>,
}

/// The replacement of an item in the new answer.
#[derive(Debug)]
pub(crate) enum Show {
    /// The item as sent.
    AsSent(Range<usize>),
    /// A rewritten text item with the whole text.
    Rewritten(String),
    /// A text item with parts of the text.
    Parts(String),
    /// A link to the artifact; without one, the item as sent, or nothing.
    Link {
        otherwise: Option<Range<usize>>,
    },
    /// A link to the artifact; without an artifact, the text at this position, a JSON string, as
    /// far as the budget allows.
    LinkOrText(Range<usize>),
    /// The item as sent, and a link to the artifact, if there is one.
    AsSentAndLink(Range<usize>),
    /// The rewritten item, and a link to the artifact.
    RewrittenAndLink(String),
    Nothing,
}

impl Show {
    /// Returns whether the new answer has the whole item, saved or not.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Self::AsSent(_)
            | Self::Rewritten(_)
            | Self::AsSentAndLink(_)
            | Self::RewrittenAndLink(_) => true,
            Self::Parts(_) | Self::Link { .. } | Self::LinkOrText(_) | Self::Nothing => false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct PlannedStructured {
    pub(crate) task: StructuredTask,
    /// Part of it that stays.
    pub(crate) shown: StructuredShown,
    /// The JSON that replaces it when it is shortened.
    pub(crate) shortened: Option<ShortenedJson>,
}

impl PlannedStructured {
    fn is_inlined(&self) -> bool {
        matches!(self.task, StructuredTask::Item(Task::Inline(_)))
    }

    fn is_saved(&self) -> bool {
        matches!(self.task, StructuredTask::Item(Task::Save(_)))
    }
}

#[derive(Debug)]
pub(crate) enum StructuredTask {
    Item(Task),
    /// This text item has the same content.
    SameAs(usize),
}

/// The condition for saving the answer as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WholeAnswer {
    Never,
    /// Saved if nothing else was saved.
    IfNothingElse,
    /// Always, after the items.
    Also,
    /// Always, and no item separately.
    Only,
}

/// Plans the capture of an answer; none when the answer passes through unchanged.
pub(crate) fn plan(answer: &RawValue, call: &Call<'_>) -> Option<Plan> {
    let settings = call.settings;
    let mut parts = Parts::read(answer, settings);
    let limit =
        call.audience.limit(settings, answer.get().len(), parts.sample(answer), parts.is_error());
    // An answer that is cut is always saved, whatever the threshold for saving (seed 000/1.3).
    let threshold = if settings.save {
        limit.min(settings.mcp_tool_response_save_threshold_bytes)
    } else {
        limit
    };

    if parts.is_unfinished {
        return None;
    }
    let mut size = measure::size(answer.get(), settings.size_measure)
        .saturating_sub(parts.uncounted_bytes(settings.size_measure));
    let needs_capture = parts.needs_capture(settings);
    // Many servers send their data twice, as text and as structured content, but most clients show
    // their model one of them, so it is measured once. The comparison reads all of both, and an
    // answer that is small with both needs none.
    if size > threshold || needs_capture {
        parts.find_duplicate();
    }
    if !call.audience.shows_both {
        size = size.saturating_sub(parts.duplicate_bytes(settings.size_measure));
    }
    if size <= threshold && !needs_capture {
        return None;
    }

    let visible = size.saturating_sub(parts.hidden(settings));
    let maker = ArtifactMaker {
        tool: call.tool,
        arguments: call.arguments.map(|raw| redact::arguments(raw, &settings.redact_arguments)),
        settings,
        ids: call.ids,
        now: call.now,
    };
    let output_schema = call.output_schema;
    let planner = Planner {
        answer,
        maker,
        audience: call.audience,
        output_schema,
        size,
        limit,
        threshold,
        beside_items: parts.bytes_beside_items(size, answer),
        visible,
        is_oversize: visible > limit,
    };
    planner.plan(parts)
}

/// The parts of an answer.
struct Parts<'a> {
    members: Option<Members<'a>>,
    items: Vec<Item<'a>>,
    /// Further items, which are not examined.
    tail: Option<Tail<'a>>,
    structured: Option<&'a RawValue>,
    /// The text item with the same content as the structured content.
    duplicate: Option<usize>,
    malformed: Option<&'static str>,
    /// Whether the answer is not final: the upstream asks for input, or has started a task.
    is_unfinished: bool,
}

impl<'a> Parts<'a> {
    fn read(answer: &'a RawValue, settings: &Settings) -> Self {
        let mut parts = Self {
            members: None,
            items: Vec::new(),
            tail: None,
            structured: None,
            duplicate: None,
            malformed: None,
            is_unfinished: false,
        };
        let Some(members) = Members::read(answer) else {
            parts.malformed = Some("the answer is not an object");
            return parts;
        };
        parts.structured = members.get("structuredContent");
        match members.get("content") {
            // Only without content, so that a server cannot evade the limit.
            None => {
                let kind = members.string(RESULT_TYPE);
                parts.is_unfinished = kind.is_some_and(|kind| kind != "complete")
                    || members.present("task").is_some();
            }
            Some(content) => {
                let max = settings.mcp_intelligent_processing.max_examined_items;
                match json::elements(content, max) {
                    Some(items) => {
                        parts.items = items.first.into_iter().map(Item::read).collect();
                        parts.tail = items.tail;
                    }
                    None => parts.malformed = Some("content is not a list"),
                }
            }
        }
        parts.members = Some(members);
        parts
    }

    /// Returns the part of the answer by which its tokens are estimated: its longest text, or its
    /// structured content. Images in base64 have many tokens and are not shown as text.
    fn sample<'b>(&self, answer: &'b RawValue) -> &'b RawValue
    where
        'a: 'b,
    {
        let texts = self.items.iter().filter_map(|item| match item.kind {
            Kind::Text(text) => text,
            Kind::Resource { is_text: true } => Some(item.raw),
            _ => None,
        });
        let longest = texts.chain(self.structured).max_by_key(|raw| raw.get().len());
        longest.unwrap_or(answer)
    }

    /// Returns whether the answer says that the call failed.
    fn is_error(&self) -> bool {
        let is_error = self.members.as_ref().and_then(|members| members.get("isError"));
        is_error.is_some_and(|is_error| is_error.get() == "true")
    }

    /// Returns whether the answer is captured whatever its size: it is malformed, has too many
    /// items, or has an item that is always saved. These are images, audio and other binary data,
    /// unknown and malformed items, and, if the settings say so, links and resources with text
    /// (seed 000/1.4).
    fn needs_capture(&self, settings: &Settings) -> bool {
        let links = settings.resource_links == ResourceLinks::Placeholder;
        let texts = settings.text_resources == TextResources::Always;
        self.malformed.is_some()
            || self.tail.is_some()
            || self.items.iter().any(|item| match item.kind {
                Kind::Text(_) => false,
                Kind::Link => links,
                Kind::Resource { is_text: true } => texts,
                _ => true,
            })
    }

    /// Size of a `resultType` and a `serverInfo` that are short enough not to count.
    fn uncounted_bytes(&self, measure: SizeMeasure) -> u64 {
        let Some(members) = &self.members else { return 0 };
        let kind =
            members.get(RESULT_TYPE).filter(|raw| raw.get().len() <= MAX_PROTOCOL_MEMBER_BYTES);
        let kind = kind.map_or(0, |kind| member_size(RESULT_TYPE, kind, measure));
        let stamp = members.get("_meta").and_then(|raw| {
            let meta = Members::read(raw)?;
            let stamp =
                meta.get(SERVER_INFO).filter(|raw| raw.get().len() <= MAX_SERVER_INFO_BYTES)?;
            let is_alone = meta.iter().count() == 1;
            Some(if is_alone {
                member_size("_meta", raw, measure)
            } else {
                member_size(SERVER_INFO, stamp, measure)
            })
        });
        kind + stamp.unwrap_or(0)
    }

    /// Finds a text item with the same content as the structured content.
    fn find_duplicate(&mut self) {
        let Some(structured) = self.structured.filter(|structured| structured.get() != "null")
        else {
            return;
        };
        let structured = ComparableContent::of(structured);
        self.duplicate = self.items.iter().position(|item| match item.kind {
            Kind::Text(Some(text)) => {
                json::string(text).is_some_and(|(text, _)| structured.equals_text(&text))
            }
            _ => false,
        });
    }

    /// Bytes of the structured content if a text item has the same content, which is then measured
    /// once.
    fn duplicate_bytes(&self, measure: SizeMeasure) -> u64 {
        let structured = self.structured.filter(|_| self.duplicate.is_some());
        structured.map_or(0, |raw| member_size("structuredContent", raw, measure))
    }

    /// Returns the bytes of an answer of this size without its items and its structured content.
    fn bytes_beside_items(&self, size: u64, answer: &RawValue) -> u64 {
        let structured = self.structured.filter(|_| self.duplicate.is_none());
        // With their commas.
        let items = self.items.iter().map(|item| item.raw.get().len() as u64 + 1).sum::<u64>();
        let structured =
            structured.map_or(0, |raw| member_size("structuredContent", raw, SizeMeasure::Compact));
        let tail = self.tail.map_or(0, |tail| tail.span(answer).len() as u64 + 1);
        size.saturating_sub((items + tail + structured).saturating_sub(1))
    }

    /// Bytes of items that are never counted as shown: they are replaced, or shown only in small
    /// answers.
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

/// Bytes of a member of an object with its name and a comma.
fn member_size(name: &str, value: &RawValue, measure: SizeMeasure) -> u64 {
    let separators = match measure {
        SizeMeasure::Compact => 2,
        SizeMeasure::SamCompatible => 4,
    };
    measure::size(value.get(), measure) + name.len() as u64 + 2 + separators
}

struct Planner<'a> {
    answer: &'a RawValue,
    maker: ArtifactMaker<'a>,
    audience: &'a Audience,
    output_schema: Option<&'a Value>,
    size: u64,
    limit: u64,
    /// Size over which an item is saved.
    threshold: u64,
    /// Size of the answer without its items and its structured content.
    beside_items: u64,
    /// Size of the answer without the items that are replaced.
    visible: u64,
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
        let other = self.other_members(parts.members.as_ref());
        let whole_answer = match (
            enable_intelligent_processing,
            save_raw_alongside_intelligent,
            fallback_to_raw_on_error,
        ) {
            _ if !self.maker.settings.save => WholeAnswer::Never,
            (false, _, _) => WholeAnswer::Only,
            (true, true, _) => WholeAnswer::Also,
            // Save the whole answer, because left-out members are in no other artifact.
            (true, false, true) if other.left_out.is_some() => WholeAnswer::Also,
            // Save it, because content without items is in no other artifact and is not shown
            // whole.
            (true, false, true) if parts.malformed.is_some() && self.is_oversize => {
                WholeAnswer::Also
            }
            (true, false, true) => WholeAnswer::IfNothingElse,
            (true, false, false) => WholeAnswer::Never,
        };

        let mut budget =
            Budget::new(self.limit(), self.maker.settings.inline_images_total_max_bytes);
        let mut total_bytes = 0;
        // An answer within the limit may grow up to it.
        let mut growth = Budget::new(self.limit().saturating_sub(self.visible), 0);
        let mut items = Vec::with_capacity(parts.items.len());
        let reserved = self.reserve(&parts.items, whole_answer, &mut budget);
        for (index, item) in parts.items.iter().enumerate() {
            let (mut task, mut show) = if reserved.contains(&index) {
                let text = item.text().map(|(text, _)| text).unwrap_or_default();
                total_bytes += text.len() as u64;
                budget.show_whole(&text);
                (Task::Inline(SMALL.into()), Show::AsSent(json::span(self.answer, item.raw)))
            } else {
                self.plan_item(index, item, whole_answer, &mut budget, &mut total_bytes)
            };
            if !self.maker.settings.save {
                (task, show) = without_saving(task, show);
            }
            if let Task::Undecodable(reason) = &task {
                let budget = if self.is_oversize { &mut budget } else { &mut growth };
                show = show_undecodable(index, item, reason, budget);
            }
            if whole_answer != WholeAnswer::Only && is_kept_with_others(item, &task, &show) {
                task = match task {
                    Task::Bundle(reason) => Task::Bundle(reason),
                    _ => Task::Bundle("neither shown nor an artifact of its own".into()),
                };
            }
            items.push(PlannedItem { kind: item.type_name(), task, show });
        }
        share_equal_artifacts(&mut items);
        let fallback_item =
            parts.malformed.and_then(|_| self.show_whole(&mut budget, &mut total_bytes));
        let tail = parts.tail.map(|tail| {
            let span = tail.span(self.answer);
            total_bytes += span.len() as u64;
            if !self.is_oversize {
                budget.shown += span.len() as u64;
            }
            let shown = (!self.is_oversize).then(|| span.clone());
            (span, PlannedTail { count: tail.count, shown })
        });
        let (tail_span, tail) = tail.unzip();

        // After the items, because a saved text item with the same content is its artifact, too.
        let structured = parts.structured.map(|structured| {
            let (shown, shortened) = self.show_structured(structured, parts.duplicate, &mut budget);
            let same = parts.duplicate.map(|index| (index, &items[index].task));
            let task = self.structured(structured, same, shown, whole_answer);
            PlannedStructured { task, shown, shortened }
        });

        let is_any_saved = tail.is_some()
            || items.iter().any(|item| matches!(item.task, Task::Save(_) | Task::Bundle(_)))
            || structured.as_ref().is_some_and(PlannedStructured::is_saved);
        // Something is saved, so the whole answer will not be: keep the JSON of undecodable items,
        // too.
        if whole_answer == WholeAnswer::IfNothingElse && is_any_saved {
            let tail_bytes = tail_span.as_ref().map_or(0, Range::len);
            self.keep_undecodable(&parts.items, &mut items, tail_bytes);
        }
        let bundle = self.bundle(
            &parts.items,
            &items,
            tail_span.filter(|_| whole_answer != WholeAnswer::Only && self.maker.settings.save),
        );

        let nothing_to_do = items.iter().all(|item| matches!(item.task, Task::Inline(_)))
            && structured.as_ref().is_none_or(PlannedStructured::is_inlined)
            && parts.malformed.is_none()
            && tail.is_none()
            && (!self.is_oversize || items.iter().all(|item| item.show.is_whole()))
            && structured.as_ref().is_none_or(|planned| planned.shown == StructuredShown::Whole)
            && other.left_out.is_none()
            && whole_answer != WholeAnswer::Only
            && !(whole_answer == WholeAnswer::Also && self.size > self.threshold)
            && !items.iter().any(PlannedItem::is_rewritten_image);
        if nothing_to_do {
            return None;
        }
        Some(Plan {
            size: self.size,
            limit: self.limit,
            oversize: self.is_oversize.then(|| budget.truncated(total_bytes)),
            budget,
            items,
            tail,
            bundle: bundle.map(|items| self.maker.bundle(items)),
            structured,
            whole_answer,
            malformed: parts.malformed,
            fallback_item,
            members: other.members,
            meta: other.meta,
            left_out: other.left_out,
        })
    }

    /// Adds to the shared artifact those undecodable items whose JSON is not shown whole, as long
    /// as that artifact stays within the size limit of one item.
    fn keep_undecodable(&self, items: &[Item<'_>], planned: &mut [PlannedItem], tail_bytes: usize) {
        /// Size in the bundle, with a comma or a bracket.
        fn size(item: &Item<'_>) -> u64 {
            item.raw.get().len() as u64 + 1
        }
        let bundle = items
            .iter()
            .zip(&*planned)
            .filter(|(_, planned)| matches!(planned.task, Task::Bundle(_)));
        let mut bytes = bundle.map(|(item, _)| size(item)).sum::<u64>() + tail_bytes as u64 + 2;
        let limit = self.maker.settings.mcp_intelligent_processing.max_single_item_bytes();
        for (item, planned) in items.iter().zip(planned) {
            if let Task::Undecodable(reason) = &mut planned.task
                && !planned.show.is_whole()
                && bytes + size(item) <= limit
            {
                bytes += size(item);
                planned.task = Task::BundleUndecodable(std::mem::take(reason));
            }
        }
    }

    /// Returns the items that are saved together as a JSON array, if there are any.
    fn bundle(
        &self,
        items: &[Item<'_>],
        planned: &[PlannedItem],
        tail: Option<Range<usize>>,
    ) -> Option<String> {
        let mut bundle = Bundle::default();
        for (item, planned) in items.iter().zip(planned) {
            if matches!(planned.task, Task::Bundle(_) | Task::BundleUndecodable(_)) {
                bundle.push(item.raw.get());
            }
        }
        if let Some(span) = tail {
            bundle.push(&self.answer.get()[span]);
        }
        bundle.into_json()
    }

    /// Selects the members that the new answer keeps beside its content: all of them, or, if the
    /// answer is over the limit, those that fit into [`MAX_OTHER_MEMBERS_BYTES`], in order.
    fn other_members(&self, members: Option<&Members<'a>>) -> OtherMembers {
        let mut other = OtherMembers::default();
        let mut left = if self.is_oversize { MAX_OTHER_MEMBERS_BYTES } else { usize::MAX };
        for (key, value) in members.iter().flat_map(|members| members.iter()) {
            let span = json::span(self.answer, value);
            let is_short = span.len() <= MAX_PROTOCOL_MEMBER_BYTES;
            match key {
                "content" | "structuredContent" => other.members.push((key.to_owned(), span)),
                // Without taking room from the others.
                _ if is_short && PROTOCOL_MEMBERS.contains(&key) => {
                    other.members.push((key.to_owned(), span));
                }
                "_meta" => {
                    let meta = Members::read(value);
                    // Only our own report may be under this key.
                    let meta =
                        meta.iter().flat_map(Members::iter).filter(|(key, _)| *key != META_KEY);
                    for (key, value) in meta {
                        let span = json::span(self.answer, value);
                        if take_room(key, &span, &mut left) {
                            other.meta.push((key.to_owned(), span));
                        } else {
                            other.leave_out(format!("_meta/{key}"), &span);
                        }
                    }
                }
                _ if take_room(key, &span, &mut left) => other.members.push((key.to_owned(), span)),
                _ => other.leave_out(key.to_owned(), &span),
            }
        }
        other
    }

    fn limit(&self) -> u64 {
        if self.is_withheld() { 0 } else { self.limit }
    }

    /// Returns whether nothing of the answer's content is shown.
    fn is_withheld(&self) -> bool {
        self.is_oversize && self.maker.settings.oversize == Oversize::Withhold
    }

    /// Returns whether the answer would not be saved if it had only this item or value.
    fn is_small(&self, raw: &RawValue) -> bool {
        let bytes = match self.maker.settings.size_measure {
            // At most the bytes as sent, which take no time to count.
            SizeMeasure::Compact => raw.get().len() as u64,
            measure @ SizeMeasure::SamCompatible => measure::size(raw.get(), measure),
        };
        self.beside_items + bytes <= self.threshold
    }

    /// Returns whether a text needs no artifact if it is shown whole.
    fn may_be_inlined(&self, item: &Item<'_>) -> bool {
        self.maker.settings.text_resources == TextResources::AsText && self.is_small(item.raw)
    }

    /// Takes room for small texts of an answer over the limit, and returns their positions. A large
    /// neighbour would use up the room, and they would become artifacts of a few bytes.
    fn reserve(
        &self,
        items: &[Item<'_>],
        whole_answer: WholeAnswer,
        budget: &mut Budget,
    ) -> HashSet<usize> {
        let mut reserved = HashSet::new();
        if !self.is_oversize || whole_answer == WholeAnswer::Only {
            return reserved;
        }
        let mut left = self.limit() / 2;
        for (index, item) in items.iter().enumerate() {
            let largest = left.min(self.limit() / SMALL_PART);
            if item.raw.get().len() as u64 > largest + FREE_BYTES || !self.may_be_inlined(item) {
                continue;
            }
            let Some((text, is_exact)) = item.text().filter(|(text, _)| !text.is_empty()) else {
                continue;
            };
            let bytes = text.len() as u64 + counted_beside_text(item);
            if is_exact && bytes <= largest && budget.take(bytes) {
                left -= bytes;
                reserved.insert(index);
            }
        }
        reserved
    }

    fn plan_item(
        &self,
        index: usize,
        item: &Item<'_>,
        whole_answer: WholeAnswer,
        budget: &mut Budget,
        total_bytes: &mut u64,
    ) -> (Task, Show) {
        let settings = self.maker.settings;
        match item.kind {
            Kind::Text(_) | Kind::Resource { is_text: true }
                if whole_answer != WholeAnswer::Only && self.may_be_inlined(item) =>
            {
                let inline = Task::Inline(SMALL.into());
                let show = self.show(item, &inline, budget, total_bytes);
                let task =
                    if show.is_whole() { inline } else { self.task(index, item, whole_answer) };
                (task, show)
            }
            Kind::Image if whole_answer != WholeAnswer::Only && self.is_small(item.raw) => {
                let max_content_items = settings.mcp_intelligent_processing.max_content_items;
                // Decoded even after `max_content_items`: it is checked, and not saved.
                let task = self.maker.task(index, item);
                match self.show(item, &task, budget, total_bytes) {
                    Show::AsSentAndLink(span) => (Task::Inline(SMALL.into()), Show::AsSent(span)),
                    // The budget has counted it.
                    Show::RewrittenAndLink(image) if index >= max_content_items => {
                        (self.task(index, item, whole_answer), Show::Rewritten(image))
                    }
                    show if index < max_content_items => (task, show),
                    _ => {
                        let task = self.task(index, item, whole_answer);
                        let show = self.show(item, &task, budget, total_bytes);
                        (task, show)
                    }
                }
            }
            _ => {
                let task = self.task(index, item, whole_answer);
                let show = self.show(item, &task, budget, total_bytes);
                (task, show)
            }
        }
    }

    fn task(&self, index: usize, item: &Item<'_>, whole_answer: WholeAnswer) -> Task {
        let max = self.maker.settings.mcp_intelligent_processing.max_content_items;
        let links = self.maker.settings.resource_links == ResourceLinks::Placeholder;
        if whole_answer == WholeAnswer::Only {
            return Task::Skip("intelligent processing is disabled".into());
        }
        if index >= max && (links || !matches!(item.kind, Kind::Link)) {
            return Task::Bundle(format!("answer has more than {max} items").into());
        }
        self.maker.task(index, item)
    }

    fn show(
        &self,
        item: &Item<'_>,
        task: &Task,
        budget: &mut Budget,
        total_bytes: &mut u64,
    ) -> Show {
        let settings = self.maker.settings;
        let sent = json::span(self.answer, item.raw);
        let is_small = self.size <= self.limit;
        match &item.kind {
            Kind::Text(text) => {
                let Some((text, is_exact)) = text.and_then(json::string) else {
                    return Show::Nothing;
                };
                *total_bytes += text.len() as u64;
                if self.is_withheld() {
                    return Show::Link { otherwise: None };
                }
                if self.is_oversize {
                    return self.show_text(item, &text, is_exact.then_some(sent), budget);
                }
                // Many parsers refuse an answer with an unpaired surrogate.
                if is_exact { Show::AsSent(sent) } else { Show::Rewritten(rewritten(item, &text)) }
            }
            Kind::Resource { is_text: true } if self.is_oversize => {
                let Some(text) = item.raw_resource_text() else { return Show::Nothing };
                *total_bytes += json::string(text).map_or(0, |(text, _)| text.len() as u64);
                Show::LinkOrText(json::span(self.answer, text))
            }
            Kind::Resource { is_text: true } => Show::AsSent(sent),
            Kind::Link if self.is_oversize && !budget.take(sent.len() as u64) => Show::Nothing,
            Kind::Link => Show::AsSent(sent),
            Kind::Unknown if is_small => Show::AsSent(sent),
            Kind::Unknown | Kind::Malformed(_) => Show::Nothing,
            Kind::Image | Kind::Audio | Kind::Resource { is_text: false } => {
                match task {
                    Task::Save(artifact) if self.is_inlined(item, artifact, budget) => {
                        if is_as_declared(item, artifact) {
                            return Show::AsSentAndLink(sent);
                        }
                        // Model providers refuse base64 and types with errors.
                        let mime_type = &artifact.mime_type;
                        Show::RewrittenAndLink(item.rewritten_image(mime_type, artifact.content()))
                    }
                    Task::Bundle(_) if matches!(item.kind, Kind::Image) => {
                        self.show_bundled_image(item, is_small.then_some(sent), budget)
                    }
                    // Clients and services of models fail on an image of another type.
                    Task::Save(artifact)
                        if matches!(item.kind, Kind::Image)
                            && !(self.reaches_model(&artifact.mime_type, artifact.content())
                                && artifact.metadata.warnings.is_empty()) =>
                    {
                        Show::Link { otherwise: None }
                    }
                    // A strict client would refuse the whole answer for a broken item.
                    Task::Fail(_) | Task::Skip(_) | Task::Undecodable(_)
                        if settings.mcp_intelligent_processing.enable_intelligent_processing =>
                    {
                        Show::Nothing
                    }
                    _ => Show::Link { otherwise: is_small.then_some(sent) },
                }
            }
        }
    }

    /// Returns whether a saved image stays in the answer beside the link to its artifact.
    fn is_inlined(&self, item: &Item<'_>, artifact: &NewArtifact, budget: &mut Budget) -> bool {
        let bytes = artifact.content().len();
        matches!(item.kind, Kind::Image)
            && self.reaches_model(&artifact.mime_type, artifact.content())
            && item.raw.get().len() <= bytes * 4 / 3 + MAX_IMAGE_MEMBERS_BYTES
            && self.has_room_for_image(bytes as u64, budget)
    }

    /// Shows an image that is saved with others, if it is one that models read: with its true type,
    /// or, if it has no room among the images but the answer is small, only as sent.
    fn show_bundled_image(
        &self,
        item: &Item<'_>,
        small: Option<Range<usize>>,
        budget: &mut Budget,
    ) -> Show {
        // Decoded size of base64, to which other members add.
        let bytes = item.raw.get().len() as u64 / 4 * 3;
        if bytes > self.maker.settings.inline_image_max_bytes && small.is_none() {
            return Show::Link { otherwise: None };
        }
        match item.readable_image() {
            Some(image) if !self.sees_image(image.mime_type, bytes) => {
                Show::Link { otherwise: None }
            }
            Some(image) if self.has_room_for_image(bytes, budget) => {
                Show::Rewritten(item.rewritten_image(image.mime_type, &image.content))
            }
            Some(image) => Show::Link { otherwise: small.filter(|_| image.is_as_sent) },
            None => Show::Link { otherwise: None },
        }
    }

    /// Returns whether bytes are an image of this type that the client's model gets.
    fn reaches_model(&self, mime_type: &str, content: &[u8]) -> bool {
        self.sees_image(mime_type, content.len() as u64) && mime::is_image_of(mime_type, content)
    }

    /// Returns whether an image of this type and size may stay in the answer.
    fn sees_image(&self, mime_type: &str, bytes: u64) -> bool {
        let types = self.maker.settings.inline_image_types.as_ref();
        types.is_none_or(|types| types.iter().any(|one| one.matches(mime_type)))
            && self.audience.sees_image(mime_type, bytes)
    }

    fn has_room_for_image(&self, bytes: u64, budget: &mut Budget) -> bool {
        bytes <= self.maker.settings.inline_image_max_bytes
            && !self.is_withheld()
            && (!self.is_oversize || budget.take_item())
            && budget.take_image(bytes)
    }

    /// Decides which part of the structured content stays, and returns the replacement when it is
    /// shortened.
    fn show_structured(
        &self,
        raw: &RawValue,
        duplicate: Option<usize>,
        budget: &mut Budget,
    ) -> (StructuredShown, Option<ShortenedJson>) {
        if !self.is_oversize || raw.get() == "null" {
            return (StructuredShown::Whole, None);
        }
        if duplicate.is_some() && self.audience.shows_both && !self.is_withheld() {
            return (StructuredShown::Dropped, None);
        }
        if budget.take(raw.get().len() as u64) {
            return (StructuredShown::Whole, None);
        }
        if self.is_withheld() {
            return (StructuredShown::Replaced, None);
        }
        // Its reader would not see the notice, which is a text.
        if self.audience.replaces_text {
            return (StructuredShown::Dropped, None);
        }
        // A client shows its model either the text or the structured content, so equal content may
        // use the same budget.
        let room = if duplicate.is_some() { self.limit() } else { budget.left() };
        let room = usize::try_from(room).unwrap_or(usize::MAX).max(MIN_SHORTENED_BYTES);
        let shortened = self.output_schema.and_then(|schema| shorten(raw, schema, room));
        match shortened {
            Some(shortened) => (StructuredShown::Shortened, Some(shortened)),
            None => (StructuredShown::Replaced, None),
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
        match budget.text(text, counted_beside_text(item)) {
            Shown::Whole => {
                sent.map_or_else(|| Show::Rewritten(rewritten(item, text)), Show::AsSent)
            }
            Shown::Parts(parts) => Show::Parts(rewritten(item, &parts)),
            Shown::Nothing => Show::Nothing,
        }
    }

    /// Shows an answer without items as JSON text.
    fn show_whole(&self, budget: &mut Budget, total_bytes: &mut u64) -> Option<String> {
        let text = self.answer.get();
        *total_bytes += text.len() as u64;
        match budget.text(text, 0) {
            Shown::Whole => Some(text_item(text, None, None)),
            Shown::Parts(parts) => Some(text_item(&parts, None, None)),
            Shown::Nothing => None,
        }
    }

    fn structured(
        &self,
        raw: &RawValue,
        same: Option<(usize, &Task)>,
        shown: StructuredShown,
        whole_answer: WholeAnswer,
    ) -> StructuredTask {
        let is_whole = shown == StructuredShown::Whole;
        let is_settled = is_whole && (!self.maker.settings.save || self.is_small(raw));
        StructuredTask::Item(match same {
            _ if whole_answer == WholeAnswer::Only => {
                Task::Skip("intelligent processing is disabled".into())
            }
            _ if raw.get() == "null" => self.maker.structured(raw),
            Some((index, Task::Save(_) | Task::Same(_))) => return StructuredTask::SameAs(index),
            Some((_, Task::Inline(_))) if is_whole => Task::Inline(SMALL.into()),
            _ if is_settled => Task::Inline(SMALL.into()),
            _ if !self.maker.settings.save => Task::Skip(NOT_SAVED.into()),
            _ => self.maker.structured(raw),
        })
    }
}

/// Leaves an item whole in the answer if it is shown, and skips it otherwise.
fn without_saving(task: Task, show: Show) -> (Task, Show) {
    if !matches!(task, Task::Save(_) | Task::Bundle(_)) {
        return (task, show);
    }
    let show = match show {
        Show::AsSentAndLink(span) | Show::Link { otherwise: Some(span) } => Show::AsSent(span),
        Show::RewrittenAndLink(item) => Show::Rewritten(item),
        show => show,
    };
    let task = if show.is_whole() {
        Task::Inline("shown whole".into())
    } else {
        Task::Skip(NOT_SAVED.into())
    };
    (task, show)
}

/// Makes items with the same bytes one artifact. Items with a name, annotations or `_meta` of their
/// own keep their own.
fn share_equal_artifacts(items: &mut [PlannedItem]) {
    fn comparable(metadata: &Metadata) -> Metadata {
        Metadata { content_index: None, ..metadata.clone() }
    }
    let mut first = HashMap::new();
    for (index, item) in items.iter_mut().enumerate() {
        let Task::Save(artifact) = &item.task else { continue };
        let key = (artifact.hash(), artifact.mime_type.clone());
        let (earlier, metadata) =
            first.entry(key).or_insert_with(|| (index, comparable(&artifact.metadata)));
        if *earlier < index && *metadata == comparable(&artifact.metadata) {
            item.task = Task::Same(*earlier);
        }
    }
}

/// Returns whether an item is saved with others because it would be lost otherwise.
fn is_kept_with_others(item: &Item<'_>, task: &Task, show: &Show) -> bool {
    match (task, &item.kind) {
        (Task::Bundle(_), _) => true,
        (Task::Skip(_), Kind::Unknown) | (Task::Inline(_), Kind::Link) => !show.is_whole(),
        _ => false,
    }
}

/// Returns whether an image can go on as sent: in standard base64, and declared as what it is.
fn is_as_declared(item: &Item<'_>, artifact: &NewArtifact) -> bool {
    artifact.metadata.warnings.is_empty()
        && item.declared_type().is_some_and(|declared| declared == artifact.mime_type)
}

/// Replaces an undecodable item by a text with the reason and its JSON, or the start of it.
fn show_undecodable(index: usize, item: &Item<'_>, reason: &str, budget: &mut Budget) -> Show {
    let raw = item.raw.get();
    let bytes = raw.len();
    let kind = notice::plain(&item.type_name(), 40);
    let head = format!("[item {index} ({kind}) cannot be decoded: {}", notice::plain(reason, 200));
    let whole = format!("{head}; its JSON has {bytes} bytes:]\n{raw}");
    if budget.take(whole.len() as u64) {
        return Show::Rewritten(text_item(&whole, None, None));
    }
    let start = &raw[..raw.floor_char_boundary(UNDECODABLE_START_BYTES)];
    let part = format!("{head}; its JSON has {bytes} bytes and begins with:]\n{start}");
    if start.len() < bytes && budget.take(part.len() as u64) {
        return Show::Parts(text_item(&part, None, None));
    }
    Show::Nothing
}

/// Items that share an artifact, as a JSON array.
#[derive(Default)]
struct Bundle(String);

impl Bundle {
    fn push(&mut self, items: &str) {
        self.0.push(if self.0.is_empty() { '[' } else { ',' });
        self.0.push_str(items);
    }

    fn into_json(mut self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        self.0.push(']');
        Some(self.0)
    }
}

/// Members of an answer beside its content.
#[derive(Default)]
struct OtherMembers {
    members: Vec<(String, Range<usize>)>,
    meta: Vec<(String, Range<usize>)>,
    left_out: Option<OmittedMembers>,
}

impl OtherMembers {
    fn leave_out(&mut self, name: String, span: &Range<usize>) {
        let left_out = self.left_out.get_or_insert_default();
        left_out.count += 1;
        left_out.bytes += (name.len() + span.len()) as u64;
        if left_out.names.len() < OmittedMembers::MAX_NAMES {
            left_out.names.push(shortened(&name, OmittedMembers::MAX_NAME_BYTES));
        }
    }
}

/// Takes room for a member; false when too little is left.
fn take_room(key: &str, span: &Range<usize>, left: &mut usize) -> bool {
    match left.checked_sub(key.len() + span.len()) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}

/// The content of structured content, for comparison with texts.
struct ComparableContent<'a> {
    minified: Vec<u8>,
    wrapped: Option<std::borrow::Cow<'a, str>>,
}

impl<'a> ComparableContent<'a> {
    fn of(structured: &'a RawValue) -> Self {
        let members = Members::read(structured).filter(|members| members.iter().count() == 1);
        let wrapped = members.and_then(|members| json::string(members.iter().next()?.1));
        Self {
            minified: json::minified(structured.get()).collect(),
            wrapped: wrapped.map(|(text, _)| text),
        }
    }

    /// Returns whether the text has all of the structured content: the same JSON apart from white
    /// space, or the text as the only member of an object. Python's SDK wraps strings in
    /// `{"result": …}`, the official file system server in `{"content": …}`.
    fn equals_text(&self, text: &str) -> bool {
        self.wrapped.as_deref() == Some(text)
            || (text.len() >= self.minified.len()
                && json::minified(text).eq(self.minified.iter().copied()))
    }
}

/// Rewrites a text item with another text.
fn rewritten(item: &Item<'_>, text: &str) -> String {
    text_item(text, item.annotations(), item.meta())
}

/// Returns the bytes beside the text of a text item that count towards the limit. A resource counts
/// whole.
fn counted_beside_text(item: &Item<'_>) -> u64 {
    let text_size = match &item.kind {
        Kind::Text(Some(raw)) => raw.get().len(),
        _ => 0,
    };
    let beside = (item.raw.get().len() - text_size) as u64;
    if beside > FREE_BYTES { beside } else { 0 }
}

/// Writes a text item as JSON.
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
