//! The unit that limits count by.

use std::{
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use crate::Principal;

/// The unit that limits count by: the authenticated principal, otherwise the address of the
/// request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Caller {
    /// A principal whose token was checked. Scopes and expiry do not matter: two tokens of one
    /// principal are one caller.
    Principal(Arc<Principal>),
    /// A client without a token, by its address. All IPv6 addresses of a /64 network count as one.
    Address(IpAddr),
    /// The client of a pipe, or the program itself.
    Local,
}

impl Caller {
    /// Returns the caller with this principal; without one, the caller at this address.
    #[must_use]
    pub fn new(principal: Option<&Arc<Principal>>, address: Option<IpAddr>) -> Self {
        match (principal, address) {
            (Some(principal), _) => Self::Principal(principal.clone()),
            (None, Some(address)) => Self::address(address),
            (None, None) => Self::Local,
        }
    }

    /// Returns the caller at this address.
    #[must_use]
    pub fn address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            address => address,
        })
    }

    /// Returns whether the bound per caller applies. It does not to callers on this machine without
    /// a token: all of them act for one user, so a bound would only make that user's agents block
    /// each other.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        match self {
            Self::Principal(_) => true,
            Self::Address(address) => !address.is_loopback(),
            Self::Local => false,
        }
    }
}

impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Principal(a), Self::Principal(b)) => {
                Arc::ptr_eq(a, b) || (a.issuer == b.issuer && a.subject == b.subject)
            }
            (Self::Address(a), Self::Address(b)) => a == b,
            (Self::Local, Self::Local) => true,
            _ => false,
        }
    }
}

impl Eq for Caller {}

impl Hash for Caller {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Principal(principal) => (&principal.issuer, &principal.subject).hash(state),
            Self::Address(address) => address.hash(state),
            Self::Local => 0_u8.hash(state),
        }
    }
}
