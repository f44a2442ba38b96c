//! Questions in the stateless era: a request ends with `input_required` and comes again with the
//! answers (2026-07-28, "Multi Round-Trip Requests").
//!
//! The handler runs from its start in each round. A question that was answered in an earlier round
//! returns its answer at once. At a new question, the handler's future is dropped and the client is
//! asked. All answers so far travel in `requestState`, sealed, so that the server stores nothing.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use marquetry_protocol_wire::{Request, RpcError, comparable, members::Members, parsed_size};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::Notify;

use crate::Principal;

pub(crate) type Answers = BTreeMap<String, Box<RawValue>>;

/// The answers from earlier rounds, and the questions of this round.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// Answers from earlier rounds.
    answers: Answers,
    /// Answers that came with this round.
    fresh: Answers,
    carried: Option<Box<RawValue>>,
    next: Mutex<NextRound>,
    asked: Notify,
}

/// The answer to the client if the handler asks a question.
#[derive(Debug, Default)]
struct NextRound {
    questions: BTreeMap<String, RoundQuestion>,
    carried: Option<Box<RawValue>>,
    /// Whether `requestState` leaves out the answers so far.
    discards_answers: bool,
}

#[derive(Debug, Serialize)]
struct RoundQuestion {
    method: &'static str,
    params: Box<RawValue>,
}

/// Seals and opens `requestState`, so that a client can neither change nor forge it.
#[derive(Clone)]
pub(crate) struct Sealer {
    key: [u8; 32],
    time_to_live: Duration,
}

/// The content of `requestState`.
#[derive(Serialize, Deserialize)]
struct SealedState {
    /// Expiry, in seconds since 1970.
    until: u64,
    /// Hash of the request: answers to one request must not serve another.
    about: String,
    answers: Answers,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    carried: Option<Box<RawValue>>,
}

const MAC_BYTES: usize = 32;

impl Rounds {
    /// # Errors
    /// Returns an error if `requestState` is not one of this request, or has expired.
    pub(crate) fn of(
        request: &Request<'_>,
        members: &Members<'_>,
        principal: Option<&Principal>,
        sealer: &Sealer,
    ) -> Result<Self, RpcError> {
        let responses: Option<Answers> = member(members, "inputResponses")?;
        let state: Option<String> = member(members, "requestState")?;
        let (answers, carried) = match state {
            Some(sealed) => {
                let about = about(principal, &request.method, members.iter());
                let state = sealer.open(&sealed, &about)?;
                (state.answers, state.carried)
            }
            None => (Answers::new(), None),
        };
        let fresh = responses.unwrap_or_default();
        Ok(Self { answers, fresh, carried, next: Mutex::default(), asked: Notify::new() })
    }

    pub(crate) fn answer(&self, key: &str) -> Option<&RawValue> {
        self.fresh.get(key).or_else(|| self.answers.get(key)).map(|answer| &**answer)
    }

    pub(crate) fn carried(&self) -> Option<&RawValue> {
        self.carried.as_deref()
    }

    pub(crate) fn fresh(&self) -> &Answers {
        &self.fresh
    }

    pub(crate) fn discard_answers(&self) {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).discards_answers = true;
    }

    pub(crate) fn carry(&self, value: Box<RawValue>) {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).carried = Some(value);
    }

    pub(crate) fn ask(&self, key: &str, method: &'static str, params: Box<RawValue>) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.questions.insert(key.to_owned(), RoundQuestion { method, params });
        drop(next);
        self.asked.notify_one();
    }

    /// Returns whether the handler has asked.
    pub(crate) fn has_asked(&self) -> bool {
        !self.next.lock().unwrap_or_else(PoisonError::into_inner).questions.is_empty()
    }

    /// Completes when the handler has asked. Poll it after the handler, so that all its concurrent
    /// questions are included.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Returns the result that asks.
    pub(crate) fn input_required(
        &self,
        about: String,
        sealer: &Sealer,
    ) -> Result<Box<RawValue>, RpcError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct InputRequired<'a> {
            result_type: &'static str,
            input_requests: &'a BTreeMap<String, RoundQuestion>,
            #[serde(skip_serializing_if = "Option::is_none")]
            request_state: Option<String>,
        }
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let carried = next.carried.take().or_else(|| self.carried.clone());
        // Questions that are asked again had invalid answers.
        let answers: Answers = self
            .answers
            .iter()
            .chain(&self.fresh)
            .filter(|(key, _)| !next.discards_answers && !next.questions.contains_key(*key))
            .map(|(key, answer)| (key.clone(), answer.clone()))
            .collect();
        let request_state = match (answers.is_empty(), &carried) {
            (true, None) => None,
            _ => Some(sealer.seal(about, answers, carried)?),
        };
        let result = InputRequired {
            result_type: "input_required",
            input_requests: &next.questions,
            request_state,
        };
        to_raw_value(&result).map_err(|error| RpcError::internal(error.to_string()))
    }
}

/// Memory of the largest value that is compared as a value, in bytes.
const MAX_PARSED: usize = 4 << 20;

/// Hashes a request without its rounds: principal, method and parameters. This takes as long as the
/// rest of a call, so only requests that ask do it.
pub(crate) fn about<'a>(
    principal: Option<&Principal>,
    method: &str,
    members: impl Iterator<Item = (&'a str, &'a RawValue)>,
) -> String {
    let members: BTreeMap<&str, &RawValue> = members
        .filter(|(name, _)| !["_meta", "inputResponses", "requestState"].contains(name))
        .collect();
    let mut hasher = blake3::Hasher::new();
    // Answers of one principal must not serve another.
    hasher.update(principal.map(Principal::id).unwrap_or_default().as_bytes());
    hasher.update(b"\0");
    hasher.update(method.as_bytes());
    hasher.update(b"\0");
    for (name, value) in members {
        // Clients may send members in another order. Values that parsers read differently, and
        // those that would take much memory, must return as the same text.
        let text = value.get();
        let is_small = text.len() < MAX_PARSED / 64 || parsed_size(text.as_bytes()) < MAX_PARSED;
        let compared = is_small.then(|| comparable(value)).flatten();
        hasher.update(name.as_bytes());
        hasher.update(b"\0");
        hasher.update(if compared.is_some() { b"=" } else { b"~" });
        hasher.update(compared.as_deref().unwrap_or(text).as_bytes());
        hasher.update(b"\0");
    }
    hasher.finalize().to_hex().to_string()
}

impl Sealer {
    pub(crate) fn new(key: [u8; 32], time_to_live: Duration) -> Self {
        Self { key, time_to_live }
    }

    fn seal(
        &self,
        about: String,
        answers: Answers,
        carried: Option<Box<RawValue>>,
    ) -> Result<String, RpcError> {
        let until = now().saturating_add(self.time_to_live.as_secs());
        let mut bytes = serde_json::to_vec(&SealedState { until, about, answers, carried })
            .map_err(|error| RpcError::internal(error.to_string()))?;
        bytes.extend_from_slice(blake3::keyed_hash(&self.key, &bytes).as_bytes());
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn open(&self, sealed: &str, about: &str) -> Result<SealedState, RpcError> {
        let state =
            self.unsealed(sealed).filter(|state| state.about == about).ok_or_else(|| {
                RpcError::invalid_params(
                    "requestState is not one that this server gave for this request",
                )
            })?;
        if state.until < now() {
            return Err(RpcError::invalid_params(
                "requestState has expired; send the request without it",
            ));
        }
        Ok(state)
    }

    /// Returns the state if this server has sealed it.
    fn unsealed(&self, sealed: &str) -> Option<SealedState> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (state, mac) = bytes.split_last_chunk::<MAC_BYTES>()?;
        // Hashes compare in constant time.
        if blake3::keyed_hash(&self.key, state) != blake3::Hash::from_bytes(*mac) {
            return None;
        }
        serde_json::from_slice(state).ok()
    }
}

fn member<T: DeserializeOwned>(members: &Members<'_>, name: &str) -> Result<Option<T>, RpcError> {
    members.read(name).map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use marquetry_protocol_wire::{Message, write_request};

    #[test]
    fn answers_travel_in_the_state() {
        let sealer = Sealer::new([7; 32], Duration::from_mins(1));
        let first = json!({ "name": "t", "arguments": { "b": 1, "a": 2 } });
        let state = round(&first, &sealer, "one", None).unwrap();
        assert_eq!(state["requestState"], serde_json::Value::Null);

        let second =
            json!({ "name": "t", "arguments": { "a": 2, "b": 1 }, "inputResponses": { "one": 1 } });
        let state = round(&second, &sealer, "two", Some(json!("mine"))).unwrap();
        let sealed = state["requestState"].as_str().unwrap();

        let third = json!({ "name": "t", "arguments": { "a": 2, "b": 1 }, "inputResponses": { "two": 2 }, "requestState": sealed });
        with(&third, |request| {
            let rounds = Rounds::of(request, &Members::of(request.params), None, &sealer).unwrap();
            assert_eq!(rounds.answer("one").unwrap().get(), "1");
            assert_eq!(rounds.answer("two").unwrap().get(), "2");
            assert_eq!(rounds.carried().unwrap().get(), r#""mine""#);
        });
    }

    #[test]
    fn a_state_is_good_for_its_own_request_and_time_alone() {
        let sealer = Sealer::new([7; 32], Duration::from_mins(1));
        let asked = json!({ "name": "delete", "arguments": { "file": "a" } });
        let sealed = round(&asked, &sealer, "sure", Some(json!(1))).unwrap();
        let sealed = sealed["requestState"].as_str().unwrap();
        let other =
            json!({ "name": "delete", "arguments": { "file": "b" }, "requestState": sealed });
        assert!(refused(other, &sealer).contains("for this request"));
        let good =
            json!({ "name": "delete", "arguments": { "file": "a" }, "requestState": sealed });
        assert!(refused(good, &Sealer::new([8; 32], Duration::from_mins(1))).contains("not one"));
        for broken in ["", "!", "AAAA", &format!("{sealed}A"), &sealed.replacen('e', "f", 1)] {
            let params =
                json!({ "name": "delete", "arguments": { "file": "a" }, "requestState": broken });
            assert!(refused(params, &sealer).contains("not one"), "{broken}");
        }
        // Differences between values that cannot be parsed are noticed, too.
        assert_ne!(about_huge("a"), about_huge("b"));
        assert_eq!(about_huge("a"), about_huge("a"));

        let late = Sealer::new([7; 32], Duration::ZERO);
        let sealed = round(&asked, &late, "sure", Some(json!(1))).unwrap();
        std::thread::sleep(Duration::from_millis(1_100));
        let params = json!({ "name": "delete", "arguments": { "file": "a" }, "requestState": sealed["requestState"] });
        assert!(refused(params, &late).contains("has expired"));
    }

    fn refused(params: serde_json::Value, sealer: &Sealer) -> String {
        with(&params, |request| {
            let members = Members::of(request.params);
            Rounds::of(request, &members, None, sealer).unwrap_err().message
        })
    }

    fn about_huge(file: &str) -> String {
        let arguments = format!(r#"{{"file":"{file}","size":1e999}}"#);
        let arguments = RawValue::from_string(arguments).unwrap();
        about(None, "tools/call", [("arguments", &*arguments)].into_iter())
    }

    fn round(
        params: &serde_json::Value,
        sealer: &Sealer,
        key: &str,
        carry: Option<serde_json::Value>,
    ) -> Result<serde_json::Value, RpcError> {
        with(params, |request| {
            let rounds = Rounds::of(request, &Members::of(request.params), None, sealer)?;
            if let Some(carry) = carry {
                rounds.carry(to_raw_value(&carry).unwrap());
            }
            rounds.ask(key, "roots/list", to_raw_value(&json!({})).unwrap());
            let about = about(None, &request.method, Members::of(request.params).iter());
            let result = rounds.input_required(about, sealer)?;
            Ok(serde_json::from_str(result.get()).unwrap())
        })
    }

    fn with<T>(params: &serde_json::Value, check: impl FnOnce(&Request<'_>) -> T) -> T {
        let params = to_raw_value(params).unwrap();
        let bytes = write_request(&1.into(), "tools/call", Some(&params));
        let Ok(Message::Request(request)) = Message::parse(&bytes, 20) else {
            panic!("no request")
        };
        check(&request)
    }
}
