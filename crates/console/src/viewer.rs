//! Viewers of the console.

/// The person who uses the console. The program puts it into the extensions of each request for
/// console data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    /// The id of the principal whose calls the viewer sees; `None` without authentication.
    pub owner: Option<String>,
    /// Administrators see the calls of everybody, and the state and the logs of servers.
    pub is_admin: bool,
}

impl Viewer {
    /// The viewer of a server without authentication, who sees everything.
    #[must_use]
    pub fn everything() -> Self {
        Self { owner: None, is_admin: true }
    }

    /// A viewer who sees the calls of one principal.
    #[must_use]
    pub fn of(owner: impl Into<String>, is_admin: bool) -> Self {
        Self { owner: Some(owner.into()), is_admin }
    }

    /// Returns whether the viewer may see data that belongs to `owner`.
    #[must_use]
    pub fn sees(&self, owner: Option<&str>) -> bool {
        self.is_admin || (self.owner.is_some() && self.owner.as_deref() == owner)
    }
}
