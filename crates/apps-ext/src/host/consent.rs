//! Requests that need the consent of the user, and how often it was denied.

use super::effect::HostRequest;
use crate::types::method;

/// A kind of request that the host fulfils only if the user agrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consent {
    OpenLink,
    AddMessage,
    Download,
    Sample,
}

impl Consent {
    /// Returns the kind of consent that a request needs; `None` if the user is not asked.
    pub(super) fn of(request: &HostRequest) -> Option<Self> {
        match request {
            HostRequest::OpenLink { .. } => Some(Self::OpenLink),
            HostRequest::AddMessage(_) => Some(Self::AddMessage),
            HostRequest::Download(_) => Some(Self::Download),
            HostRequest::Sample { .. } => Some(Self::Sample),
            HostRequest::SetDisplayMode(_)
            | HostRequest::CallTool { .. }
            | HostRequest::Forward { .. } => None,
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::OpenLink => method::OPEN_LINK,
            Self::AddMessage => method::MESSAGE,
            Self::Download => method::DOWNLOAD_FILE,
            Self::Sample => method::SAMPLING,
        }
    }
}

/// Counts how often in a row the user has denied each kind of request.
#[derive(Debug, Default)]
pub(super) struct Denials([u32; 4]);

impl Denials {
    /// Counts a denial. An agreement of the user starts the count anew.
    pub(super) fn record(&mut self, kind: Consent, is_denied: bool) {
        let count = &mut self.0[kind as usize];
        *count = if is_denied { count.saturating_add(1) } else { 0 };
    }

    /// Returns why the user is not asked again, once `max` requests in a row were denied.
    pub(super) fn refusal(&self, kind: Consent, max: u32) -> Option<String> {
        let method = kind.method();
        (self.0[kind as usize] >= max).then(|| {
            format!("the user denied {max} requests '{method}' in a row (max_denials); they are not asked again")
        })
    }
}
