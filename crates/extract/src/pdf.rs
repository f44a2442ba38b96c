//! PDF (ISO 32000): the text of each page, in the order in which it is read.
//!
//! Interpreting a PDF may take any time, and the interpreter may panic. Therefore each document is
//! read on a separate thread. After the time limit the thread is abandoned; it ends at the next
//! glyph or shape that it draws.

mod annotations;
mod filters;
mod page;
mod repair;
mod strings;
mod unpacked;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use hayro_interpret::{
    Context, InterpreterCache, InterpreterSettings,
    hayro_syntax::{DecryptionError, LoadPdfError, metadata::Metadata},
    interpret_page,
    kurbo::Rect,
    util::TransformExt as _,
};

use self::page::{PageStopped, PageText};
use crate::{
    ExtractError, Extracted, Extractor, Limits, Page, Problem, Source, Stop,
    budget::{Reservation, UNPACKED},
};

/// Extracts the text of pages; text in images is not recognised.
pub(crate) struct Pdf;

/// Name of the format in errors.
const FORMAT: &str = "PDF";

impl Extractor for Pdf {
    fn media_types(&self) -> &[&str] {
        &["application/pdf", "application/x-pdf"]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("pdf", "application/pdf")]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        bytes.trim_ascii_start().starts_with(b"%PDF-").then_some("application/pdf")
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let start = &source.bytes[..source.bytes.len().min(1024)];
        if !start.windows(5).any(|window| window == b"%PDF-") {
            return Err(malformed("it does not begin with %PDF-"));
        }
        let bytes = source.bytes.to_vec();
        let limits = *source.limits;
        let stop = source.stop.clone();
        // Released at the end of this call, even if the thread is abandoned: a reader that never
        // ends must not block the others. `Worker` limits the number of threads.
        let room = Room::default();
        let _give_back = GiveBack(room.clone());
        let worker = Worker::begin()?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let builder = thread::Builder::new().name("pdf".to_owned()).stack_size(STACK);
        let spawned = builder.spawn(move || {
            let _worker = worker;
            let result = catch_unwind(AssertUnwindSafe(|| read(bytes, &limits, &stop, &room)))
                .unwrap_or_else(|panic| Err(refusal(panic.as_ref())));
            // Sending fails if the call has ended because its time was over.
            let _ = sender.send(result);
        });
        spawned.map_err(|error| malformed(&format!("failed to start a thread: {error}")))?;
        // The thread ends by itself at its deadline; otherwise this call ends here.
        loop {
            match receiver.recv_timeout(LOOK_AGAIN) {
                Ok(done) => return done,
                Err(mpsc::RecvTimeoutError::Timeout) => source.stop.check()?,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(malformed("reading was cancelled"));
                }
            }
        }
    }
}

/// The reservation of a document. The call holds it, and its thread fills it.
#[derive(Clone, Default)]
struct Room(Arc<Mutex<Option<Reservation>>>);

impl Room {
    fn lock(&self) -> MutexGuard<'_, Option<Reservation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases the reservation when it is dropped.
struct GiveBack(Room);

impl Drop for GiveBack {
    fn drop(&mut self) {
        drop(self.0.lock().take());
    }
}

/// Interval at which a waiting call checks whether the caller disconnected.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Stack size of the thread, in bytes. Nested forms are read by recursion, to a depth that hayro
/// limits.
const STACK: usize = 16 << 20;

/// A thread that reads a document. It is counted, so that abandoned threads stay few.
struct Worker(&'static AtomicUsize);

impl Worker {
    /// Maximum threads; more than most machines have processors.
    const MAX: usize = 64;

    fn begin() -> Result<Self, ExtractError> {
        static WORKERS: AtomicUsize = AtomicUsize::new(0);
        let begun = WORKERS.fetch_add(1, Ordering::Relaxed);
        let worker = Self(&WORKERS);
        if begun >= Self::MAX { Err(ExtractError::Busy(begun)) } else { Ok(worker) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn malformed(reason: &str) -> ExtractError {
    ExtractError::Malformed { format: FORMAT, reason: reason.to_owned() }
}

/// Returns the error for a thread that panicked.
fn refusal(panic: &(dyn std::any::Any + Send)) -> ExtractError {
    if let Some(PageStopped(error)) = panic.downcast_ref() {
        error.clone()
    } else {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        malformed(&format!("reading was cancelled: {}", message.unwrap_or("no reason given")))
    }
}

fn read(
    bytes: Vec<u8>,
    limits: &Limits,
    stop: &Stop,
    room: &Room,
) -> Result<Extracted, ExtractError> {
    let unpacked = unpacked::check(&bytes, limits, stop)?;
    *room.lock() = Some(UNPACKED.reserve(unpacked, limits, stop)?);
    // The caller may have gone while this document waited.
    stop.check()?;
    let pdf = repair::open(bytes).map_err(|error| match error {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => ExtractError::Encrypted,
        LoadPdfError::Decryption(error) => {
            malformed(&format!("its encryption is not known: {error:?}"))
        }
        LoadPdfError::Invalid => malformed("no page was found; it may be truncated"),
    })?;
    let pages = pdf.pages();
    limits.check_pages(pages.len())?;
    let mut extracted = Extracted { wrapped: true, ..Extracted::default() };
    let mut cache = InterpreterCache::new();
    let mut unknown = 0;
    let mut images: Vec<u32> = Vec::new();
    let mut drawings: Vec<u32> = Vec::new();
    for (number, page) in (1..).zip(pages.iter()) {
        let mut text = PageText::new(stop.clone(), *limits);
        let done = catch_unwind(AssertUnwindSafe(|| {
            let (width, height) = page.render_dimensions();
            let bounds = Rect::new(0.0, 0.0, width.into(), height.into());
            let transform = page.initial_transform(true).to_kurbo();
            let settings = InterpreterSettings::default();
            let mut context = Context::new(transform, bounds, &cache, pdf.xref(), settings);
            interpret_page(page, &mut context, &mut text);
            annotations::add(page, transform, &mut text)
        }));
        let notes = match done {
            Ok(notes) => notes,
            Err(panic) if panic.is::<PageStopped>() => return Err(refusal(panic.as_ref())),
            Err(panic) => {
                // The cache may hold incomplete entries of this page.
                cache = InterpreterCache::new();
                let reason = refusal(panic.as_ref()).to_string();
                extracted.problems.push(Problem::Page { number, reason });
                Vec::new()
            }
        };
        stop.check()?;
        unknown += text.unknown();
        let has_images = text.has_images();
        let has_shapes = text.has_shapes();
        let content = &mut extracted.content;
        let text = with_notes(text.finish(), &notes);
        let before = content.len();
        if text.is_empty() {
            if has_images {
                images.push(number);
            }
            if has_images || has_shapes {
                drawings.push(number);
            }
            extracted.pages.push(Page { number, span: before..before });
            continue;
        }
        if before > 0 {
            content.push_str("\n\n");
        }
        let start = content.len();
        content.push_str(&text);
        extracted.pages.push(Page { number, span: start..content.len() });
        limits.check_content(content.len())?;
    }
    extracted.page_count = Some(pages.len() as u32);
    if unknown > 0 {
        let reason = format!("{unknown} characters without a meaning in their fonts");
        extracted.problems.push(Problem::Other { reason });
    }
    // A page of a text may have nothing but a frame or a line. In a document without any text, the
    // shapes are outlines of letters, or a drawing.
    let pages = if extracted.content.is_empty() { drawings } else { images };
    if !pages.is_empty() {
        extracted.problems.push(Problem::Pictures { pages });
    }
    properties(pdf.metadata(), &mut extracted);
    Ok(extracted)
}

/// Appends the notes of a page that do not only repeat its text.
fn with_notes(mut text: String, notes: &[String]) -> String {
    for note in notes.iter().map(|note| note.trim()) {
        if !text.contains(note) {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(note);
        }
    }
    text
}

/// Copies the metadata of the document.
fn properties(metadata: &Metadata, extracted: &mut Extracted) {
    extracted.title = property(metadata.title.as_deref());
    let known = [
        ("author", &metadata.author),
        ("subject", &metadata.subject),
        ("keywords", &metadata.keywords),
        ("generator", &metadata.creator),
    ];
    let known = known
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), property(value.as_deref())?)));
    extracted.metadata.extend(known);
}

/// Returns the text of a property that is not empty.
fn property(bytes: Option<&[u8]>) -> Option<String> {
    let text = strings::text(bytes?).trim().to_owned();
    (!text.is_empty()).then_some(text)
}
