//! Recordings of the answers of models and servers, which are replayed without network, programs or
//! keys.
//!
//! A cassette has one channel for each model and each server of a case. A replay looks for an equal
//! request among those not yet replayed on the channel. Without one, the error shows the first
//! difference between the request and the next recorded request. Keys are not recorded: recorded
//! requests to models contain none, and the secrets of a case are removed from all texts.

use std::{
    collections::{BTreeMap, VecDeque},
    fs, io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use marquetry_atomic_file::{Readers, replace};
use marquetry_llm::{ChatAnswer, ChatError, ChatModel, ChatRequest};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    models::ask,
    redact::{Redactor, cut},
};

/// The version of the format.
const VERSION: u32 = 1;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// A recording that is being made or replayed. Cheap to clone.
///
/// Cases with different names may share one and run at once.
#[derive(Clone)]
pub struct Cassette(Arc<Recording>);

struct Recording {
    is_replay: bool,
    tape: Mutex<Tape>,
}

#[derive(Default)]
struct Tape {
    entries: Vec<Entry>,
    /// The number of trials, if the recording has it.
    trials: Option<u32>,
    /// For each channel, the indices of its entries that were not replayed yet, in order.
    left: BTreeMap<String, VecDeque<usize>>,
}

impl Tape {
    /// Returns the number of requests that were recorded on a channel.
    fn recorded_on(&self, channel: &str) -> usize {
        self.entries.iter().filter(|entry| entry.channel == channel).count()
    }
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    /// Recordings of older versions lack it.
    #[serde(default)]
    trials: Option<u32>,
    entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    channel: String,
    request: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
}

/// A recorded answer.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Ok(Value),
    Error(String),
    /// There was no answer: the trial ended, for this reason.
    Ended(String),
}

/// Why a recording cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file cannot be read or written.
    #[error("cassette {path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A request differs from the recorded one.
    #[error(
        "request {number} on {channel} differs from the recording at {pointer}: recorded {recorded}, now {found}; record again (--record) \
         if the change is intended"
    )]
    Mismatch {
        /// The case, and the model or server.
        channel: String,
        /// The number of the request on the channel, from 1.
        number: usize,
        /// The first difference, as a JSON pointer.
        pointer: String,
        /// The recorded value.
        recorded: String,
        /// The present value.
        found: String,
    },
    /// Recorded requests were not made.
    #[error(
        "{left} of {number} recorded requests on {channel} were not made; the first is {first}; record again (--record) if the change is \
         intended"
    )]
    Left {
        /// The case, and the model or server.
        channel: String,
        /// The number of requests that were not made.
        left: usize,
        /// The number of recorded requests.
        number: usize,
        /// The first request that was not made.
        first: String,
    },
    /// A recorded answer cannot be read.
    #[error(
        "an answer in the recording of {channel} is invalid: {problem}; record again (--record)"
    )]
    Invalid {
        /// The case, and the model or server.
        channel: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A request that had no answer, because the recorded trial ended.
    #[error(
        "the recorded trial ended at this request on {channel}: {reason}; record again (--record)"
    )]
    TrialEnded {
        /// The case, and the model or server.
        channel: String,
        /// Why the trial ended.
        reason: String,
    },
    /// There are more requests than recorded.
    #[error(
        "the recording of {channel} ends after {number} request{}, and there is one more: {found}; record again (--record)",
        if *number == 1 { "" } else { "s" }
    )]
    Ended {
        /// The case, and the model or server.
        channel: String,
        /// The number of recorded requests.
        number: usize,
        /// The request.
        found: String,
    },
}

impl CassetteError {
    fn of_file(path: &Path, problem: String) -> Self {
        Self::File { path: path.display().to_string(), problem }
    }
}

impl Cassette {
    /// Returns an empty cassette that records.
    pub fn record() -> Self {
        Self(Arc::new(Recording { is_replay: false, tape: Mutex::default() }))
    }

    /// Reads a cassette for a replay.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be used: [`CassetteError::File`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, CassetteError> {
        let path = path.as_ref();
        let text = read_bounded(path)
            .map_err(|error| CassetteError::of_file(path, format!("failed to read: {error}")))?;
        let file: File = serde_json::from_slice(&text)
            .map_err(|error| CassetteError::of_file(path, format!("not a cassette: {error}")))?;
        if file.version != VERSION {
            let problem = format!(
                "it has version {}, this program reads {VERSION}: record again (--record)",
                file.version
            );
            return Err(CassetteError::of_file(path, problem));
        }
        let mut left: BTreeMap<String, VecDeque<usize>> = BTreeMap::new();
        for (index, entry) in file.entries.iter().enumerate() {
            left.entry(entry.channel.clone()).or_default().push_back(index);
        }
        let tape = Tape { entries: file.entries, trials: file.trials, left };
        Ok(Self(Arc::new(Recording { is_replay: true, tape: Mutex::new(tape) })))
    }

    /// Returns whether this cassette replays.
    pub fn is_replay(&self) -> bool {
        self.0.is_replay
    }

    /// Writes a recording to a file, which is replaced as a whole. Requests without an answer are
    /// left out.
    ///
    /// The recording of a result with the status `error` is rarely of use: its replay ends with the
    /// same error.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be used: [`CassetteError::File`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), CassetteError> {
        let path = path.as_ref();
        self.to_json()
            .map_err(io::Error::from)
            // It has the answers of models and servers.
            .and_then(|text| replace(path, (text + "\n").as_bytes(), Readers::Owner))
            .map_err(|error| CassetteError::of_file(path, format!("failed to write: {error}")))
    }

    fn to_json(&self) -> serde_json::Result<String> {
        let tape = self.tape();
        let answered: Vec<&Entry> =
            tape.entries.iter().filter(|entry| entry.answer.is_some()).collect();
        serde_json::to_string_pretty(
            &json!({"version": VERSION, "trials": tape.trials, "entries": answered}),
        )
    }

    /// Returns the number of trials that were recorded; older recordings do not have it.
    #[must_use]
    pub fn trials(&self) -> Option<u32> {
        self.tape().trials
    }

    /// Records the number of trials.
    pub(crate) fn set_trials(&self, trials: u32) {
        if !self.0.is_replay {
            self.tape().trials = Some(trials);
        }
    }

    /// Returns the names of the servers that were recorded for a case, in the order of the case, so
    /// that a replay needs none of them.
    #[must_use]
    pub fn servers(&self, case: &str) -> Vec<String> {
        let prefix = format!("{case}/server:");
        let mut names: Vec<String> = Vec::new();
        for entry in &self.tape().entries {
            let name = entry.channel.strip_prefix(&*prefix);
            names.extend(name.filter(|name| !names.iter().any(|it| it == name)).map(Into::into));
        }
        names
    }

    /// Records why a trial of a case ended, as the answer to its requests that have none.
    pub(crate) fn trial_ended(&self, case: &str, reason: &str) {
        if self.0.is_replay {
            return;
        }
        let mut tape = self.tape();
        let open = tape.entries.iter_mut().filter(|entry| entry.answer.is_none());
        for entry in open.filter(|entry| is_of_case(&entry.channel, case)) {
            entry.answer = Some(Answer::Ended(reason.to_owned()));
        }
    }

    /// Checks that a replayed case has made all requests that were recorded.
    pub(crate) fn check_replayed(&self, case: &str) -> Result<(), CassetteError> {
        if !self.0.is_replay {
            return Ok(());
        }
        let tape = self.tape();
        let mut channels = tape.left.iter();
        let left = channels.find(|(channel, left)| !left.is_empty() && is_of_case(channel, case));
        let Some((channel, left)) = left else { return Ok(()) };
        let first = left.front().map(|index| tape.entries[*index].request.to_string());
        Err(CassetteError::Left {
            channel: channel.clone(),
            left: left.len(),
            number: tape.recorded_on(channel),
            first: cut(&first.unwrap_or_default(), 400),
        })
    }

    pub(crate) fn channel(&self, name: String, redactor: Arc<Redactor>) -> Channel {
        Channel { cassette: self.clone(), name, redactor }
    }

    fn tape(&self) -> std::sync::MutexGuard<'_, Tape> {
        self.0.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a file of at most [`MAX_FILE_BYTES`].
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let size = fs::metadata(path)?.len();
    if size > MAX_FILE_BYTES {
        let problem = format!("it has {size} bytes, more than {MAX_FILE_BYTES}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    fs::read(path)
}

/// Returns whether a channel belongs to this case. A prefix test is not enough: `files/read` is
/// another case than `files`.
fn is_of_case(channel: &str, case: &str) -> bool {
    let rest = channel.strip_prefix(case);
    rest.is_some_and(|rest| matches!(rest, "/agent" | "/judge") || rest.starts_with("/server:"))
}

impl std::fmt::Debug for Cassette {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cassette").field("is_replay", &self.0.is_replay).finish_non_exhaustive()
    }
}

/// A recorded answer that is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplayedAnswer {
    /// The answer.
    Answer(Value),
    /// The error of the model or server.
    Error(String),
}

/// The requests to one model or server.
#[derive(Clone)]
pub(crate) struct Channel {
    cassette: Cassette,
    name: String,
    redactor: Arc<Redactor>,
}

impl Channel {
    pub(crate) fn is_replay(&self) -> bool {
        self.cassette.is_replay()
    }

    /// Replays the answer to a request.
    pub(crate) fn replay(&self, request: Value) -> Result<ReplayedAnswer, CassetteError> {
        let request = self.redactor.redact_json(request);
        let mut tape = self.cassette.tape();
        let recorded = tape.recorded_on(&self.name);
        let Tape { entries, left, .. } = &mut *tape;
        let left = left.entry(self.name.clone()).or_default();
        // Concurrent requests, such as votes, may arrive in another order.
        let position = left
            .iter()
            .position(|index| {
                difference(&entries[*index].request, &request, String::new()).is_none()
            })
            .unwrap_or(0);
        let Some(index) = left.remove(position) else {
            return Err(CassetteError::Ended {
                channel: self.name.clone(),
                number: recorded,
                found: cut(&request.to_string(), 400),
            });
        };
        let entry = &entries[index];
        if let Some((at, before, now)) = difference(&entry.request, &request, String::new()) {
            return Err(CassetteError::Mismatch {
                channel: self.name.clone(),
                number: recorded - left.len(),
                pointer: if at.is_empty() { "/".to_owned() } else { at },
                recorded: cut(&before, 400),
                found: cut(&now, 400),
            });
        }
        match entry.answer.clone() {
            Some(Answer::Ok(answer)) => Ok(ReplayedAnswer::Answer(answer)),
            Some(Answer::Error(error)) => Ok(ReplayedAnswer::Error(error)),
            Some(Answer::Ended(reason)) => {
                Err(CassetteError::TrialEnded { channel: self.name.clone(), reason })
            }
            // `save` leaves out requests without an answer, but a file may be written by hand.
            None => Err(self.invalid("nothing was recorded")),
        }
    }

    /// Parses a recorded value.
    pub(crate) fn parsed<T: DeserializeOwned>(&self, value: Value) -> Result<T, CassetteError> {
        serde_json::from_value(value).map_err(|error| self.invalid(error))
    }

    /// Returns the error of a recorded answer that cannot be used.
    pub(crate) fn invalid(&self, problem: impl ToString) -> CassetteError {
        CassetteError::Invalid { channel: self.name.clone(), problem: problem.to_string() }
    }

    /// Records a request, and returns its index for [`Self::answer`]. Indices keep the order of
    /// concurrent requests.
    pub(crate) fn request(&self, request: Value) -> usize {
        let request = self.redactor.redact_json(request);
        let mut tape = self.cassette.tape();
        tape.entries.push(Entry { channel: self.name.clone(), request, answer: None });
        tape.entries.len() - 1
    }

    /// Records the answer to a request.
    pub(crate) fn answer(&self, index: usize, answer: Result<Value, String>) {
        let answer = match answer {
            Ok(value) => Answer::Ok(self.redactor.redact_json(value)),
            Err(text) => Answer::Error(self.redactor.redact(text)),
        };
        if let Some(entry) = self.cassette.tape().entries.get_mut(index) {
            entry.answer = Some(answer);
        }
    }
}

/// Returns the first difference: its JSON pointer, and both values.
fn difference(
    recorded: &Value,
    found: &Value,
    pointer: String,
) -> Option<(String, String, String)> {
    match (recorded, found) {
        (Value::Object(before), Value::Object(now)) => {
            let missing = now.keys().filter(|name| !before.contains_key(*name));
            before.keys().chain(missing).find_map(|name| {
                let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                match (before.get(name), now.get(name)) {
                    (Some(before), Some(now)) => difference(before, now, pointer),
                    (before, now) => Some((pointer, shown(before), shown(now))),
                }
            })
        }
        (Value::Array(before), Value::Array(now)) => {
            (0..before.len().max(now.len())).find_map(|index| {
                let pointer = format!("{pointer}/{index}");
                match (before.get(index), now.get(index)) {
                    (Some(before), Some(now)) => difference(before, now, pointer),
                    (before, now) => Some((pointer, shown(before), shown(now))),
                }
            })
        }
        _ if recorded == found => None,
        _ => Some((pointer, recorded.to_string(), found.to_string())),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
}

/// A model whose answers are recorded or replayed.
pub(crate) struct TapedModel {
    channel: Channel,
    name: String,
    /// `None` in a replay.
    live: Option<Arc<dyn ChatModel>>,
}

impl TapedModel {
    /// Records the answers of `live`; without it, replays them. `name` is the model's name in the
    /// case, which is the same for both.
    pub(crate) fn new(channel: Channel, name: &str, live: Option<Arc<dyn ChatModel>>) -> Self {
        Self { channel, name: name.to_owned(), live }
    }
}

#[async_trait]
impl ChatModel for TapedModel {
    fn name(&self) -> &str {
        &self.name
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        self.record_or_replay(request, false).await
    }

    async fn stream(
        &self,
        request: &ChatRequest,
        on_text: &mut (dyn for<'t> FnMut(&'t str) + Send),
    ) -> Result<ChatAnswer, ChatError> {
        let answer = self.record_or_replay(request, true).await?;
        if !answer.text.is_empty() {
            on_text(&answer.text);
        }
        Ok(answer)
    }
}

impl TapedModel {
    async fn record_or_replay(
        &self,
        request: &ChatRequest,
        is_streamed: bool,
    ) -> Result<ChatAnswer, ChatError> {
        let asked = json!({"model": self.name, "request": request});
        let Some(live) = &self.live else {
            return match self.channel.replay(asked) {
                Ok(ReplayedAnswer::Answer(answer)) => {
                    let answer = self.channel.parsed(answer);
                    answer.map_err(|error| ChatError::Model(error.to_string()))
                }
                Ok(ReplayedAnswer::Error(error)) => Err(ChatError::Model(error)),
                Err(error) => Err(ChatError::Model(error.to_string())),
            };
        };
        let index = self.channel.request(asked);
        let outcome = ask(&**live, request, is_streamed).await;
        let answer = outcome.as_ref().map(|answer| json!(answer)).map_err(ToString::to_string);
        self.channel.answer(index, answer);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(cassette: &Cassette, name: &str) -> Channel {
        cassette.channel(name.to_owned(), Arc::default())
    }

    #[test]
    fn a_recording_is_replayed_and_a_difference_is_shown() {
        let cassette = Cassette::record();
        let one = channel(&cassette, "one");
        let two = channel(&cassette, "two");
        let request = one.request(json!({"a": [1, {"b": 2}]}));
        two.answer(two.request(json!(7)), Err("no".to_owned()));
        one.request(json!("never answered"));
        one.answer(request, Ok(json!("yes")));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        cassette.save(&path).unwrap();

        let cassette = Cassette::load(&path).unwrap();
        assert_eq!(
            channel(&cassette, "two").replay(json!(7)),
            Ok(ReplayedAnswer::Error("no".to_owned()))
        );
        let one = channel(&cassette, "one");
        assert_eq!(
            one.replay(json!({"a": [1, {"b": 2}]})),
            Ok(ReplayedAnswer::Answer(json!("yes")))
        );
        let error = one.replay(json!(1)).unwrap_err().to_string();
        assert!(error.contains("ends after 1 request,"), "{error}");
        let one = channel(&Cassette::load(&path).unwrap(), "one");
        let error = one.replay(json!({"a": [1, {"b": 3}]})).unwrap_err().to_string();
        assert!(
            error.contains("differs from the recording at /a/1/b: recorded 2, now 3"),
            "{error}"
        );
        let one = channel(&Cassette::load(&path).unwrap(), "one");
        let error = one.replay(json!({"a": [1]})).unwrap_err().to_string();
        assert!(error.contains("at /a/1: recorded {\"b\":2}, now nothing"), "{error}");
    }

    #[test]
    fn the_requests_of_a_case_are_not_those_of_one_whose_name_begins_alike() {
        let cassette = Cassette::record();
        for name in ["files/agent", "files/read/agent"] {
            let channel = channel(&cassette, name);
            channel.answer(channel.request(json!(1)), Ok(json!("not a list of tools")));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        cassette.save(&path).unwrap();
        let replay = Cassette::load(&path).unwrap();
        let agent = channel(&replay, "files/agent");
        let ReplayedAnswer::Answer(answer) = agent.replay(json!(1)).unwrap() else {
            panic!("an error")
        };
        assert_eq!(replay.check_replayed("files"), Ok(()));
        assert!(replay.check_replayed("files/read").is_err());
        let error = agent.parsed::<Vec<u8>>(answer).unwrap_err().to_string();
        assert!(error.contains("recording of files/agent is invalid"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_cassette_is_private_and_touches_no_other_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "an older one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let other = folder.path().join("a.json.new");
        fs::write(&other, "of the user").unwrap();
        Cassette::record().save(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&other).unwrap(), "of the user");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let error = Cassette::record().save(&path).unwrap_err().to_string();
        assert!(error.contains("is a link"), "{error}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "of the user");
    }

    #[test]
    fn equal_requests_are_replayed_in_the_order_of_the_recording() {
        let cassette = Cassette::record();
        let one = channel(&cassette, "one");
        for (request, answer) in [(1, "a"), (2, "b"), (1, "c")] {
            one.answer(one.request(json!(request)), Ok(json!(answer)));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        cassette.save(&path).unwrap();
        let one = channel(&Cassette::load(&path).unwrap(), "one");
        for (request, answer) in [(2, "b"), (1, "a"), (1, "c")] {
            assert_eq!(one.replay(json!(request)), Ok(ReplayedAnswer::Answer(json!(answer))));
        }
    }

    #[test]
    fn a_file_that_is_not_a_cassette_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let error = Cassette::load(&path).unwrap_err().to_string();
        assert!(error.contains("a.json: failed to read: "), "{error}");
        for (text, want) in
            [("{", "not a cassette"), (r#"{"version": 9, "entries": []}"#, "it has version 9")]
        {
            fs::write(&path, text).unwrap();
            let error = Cassette::load(&path).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
