//! Logins of the person who started the server: a code in the printed link, which works once,
//! becomes a token for the tab.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// Time in which a code must be used.
const CODE_TIME: Duration = Duration::from_mins(1);
/// Time for which a token is valid.
const TOKEN_TIME: Duration = Duration::from_hours(12);
/// Tokens at a time; the oldest one ends when there are more.
const MAX_TOKENS: usize = 16;
/// Prefix of every token, so that other tokens are not looked up.
const PREFIX: &str = "mqc_";

/// The printed code, and the tokens that codes were exchanged for.
#[derive(Default)]
pub struct Logins {
    state: Mutex<LoginState>,
    /// See [`Self::on_login`].
    on_login: OnceLock<Box<dyn Fn(bool) + Send + Sync>>,
}

#[derive(Default)]
struct LoginState {
    /// The code, if there is one, with the time at which it ends. The maps' hashers have random
    /// keys, so that the time of a lookup reveals nothing about the stored texts.
    code: HashMap<String, Instant>,
    /// Tokens with the time at which they end.
    tokens: HashMap<String, Instant>,
}

impl Logins {
    /// Returns a new code, which works once within 60 s. An earlier one stops working.
    ///
    /// # Panics
    /// The system gives no random numbers.
    #[must_use]
    pub fn new_code(&self) -> String {
        let code = random();
        let end = Instant::now() + CODE_TIME;
        self.with(|state| state.code = HashMap::from([(code.clone(), end)]));
        code
    }

    /// Calls `told` at each login, with whether the code was right. Only the first call of this
    /// method has an effect.
    pub fn on_login(&self, told: impl Fn(bool) + Send + Sync + 'static) {
        // An error means that another function is told already.
        _ = self.on_login.set(Box::new(told));
    }

    /// Exchanges the code for a token. `None` if the code is wrong, expired or already used.
    ///
    /// A wrong code leaves the right one valid, since anybody who reaches the server can send one.
    /// 128 random bits cannot be guessed in the minute for which a code is valid.
    pub(crate) fn redeem(&self, code: &str) -> Option<String> {
        let token = self.exchange(code);
        if let Some(told) = self.on_login.get() {
            told(token.is_some());
        }
        token
    }

    fn exchange(&self, code: &str) -> Option<String> {
        self.with(|state| {
            if state.code.remove(code)? < Instant::now() {
                return None;
            }
            if state.tokens.len() >= MAX_TOKENS
                && let Some(oldest) = state.tokens.iter().min_by_key(|(_, until)| **until)
            {
                let oldest = oldest.0.clone();
                state.tokens.remove(&oldest);
            }
            let token = format!("{PREFIX}{}", random());
            state.tokens.insert(token.clone(), Instant::now() + TOKEN_TIME);
            Some(token)
        })
    }

    /// Returns whether a token was issued for a code and is still valid.
    #[must_use]
    pub fn knows(&self, token: &str) -> bool {
        token.starts_with(PREFIX)
            && self
                .with(|state| state.tokens.get(token).is_some_and(|until| *until > Instant::now()))
    }

    fn with<T>(&self, work: impl FnOnce(&mut LoginState) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns 128 random bits in hexadecimal.
fn random() -> String {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_code_works_once_and_survives_wrong_ones() {
        let logins = Logins::default();
        let told = Arc::new(Mutex::new(Vec::new()));
        let logged = told.clone();
        logins.on_login(move |is_right| logged.lock().unwrap().push(is_right));
        assert_eq!(logins.redeem(""), None);
        let code = logins.new_code();
        let token = logins.redeem(&code).unwrap();
        assert_eq!(*told.lock().unwrap(), [false, true]);
        assert!(logins.knows(&token));
        assert_eq!(logins.redeem(&code), None, "used");
        assert!(!logins.knows("mqc_0") && !logins.knows(""));
        let code = logins.new_code();
        assert_eq!(logins.redeem("wrong"), None);
        assert!(logins.redeem(&code).is_some(), "a wrong guess must not end it");
        let old = logins.new_code();
        let new = logins.new_code();
        assert_eq!(logins.redeem(&old), None, "a newer one replaced it");
        assert!(logins.redeem(&new).is_some());
    }

    #[test]
    fn tokens_are_bounded_and_the_oldest_ends() {
        let logins = Logins::default();
        let tokens: Vec<_> =
            (0..=MAX_TOKENS).map(|_| logins.redeem(&logins.new_code()).unwrap()).collect();
        assert!(!logins.knows(&tokens[0]));
        assert!(tokens[1..].iter().all(|token| logins.knows(token)));
    }
}
