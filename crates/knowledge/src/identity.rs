//! The ids and URIs of users and groups.

use marquetry_context_blocks::Am7Uri;
use marquetry_protocol::server::Principal;

/// Returns the object id of a principal's user: the name of a configured token if it is a valid id,
/// otherwise a hash of issuer and subject, because two issuers may use the same subject.
pub(crate) fn user_id(principal: &Principal, organization: &str) -> String {
    match &principal.issuer {
        None if can_be_id(&principal.subject, organization) => principal.subject.clone(),
        _ => format!("user-{}", &blake3::hash(principal.id().as_bytes()).to_hex()[..32]),
    }
}

fn can_be_id(id: &str, organization: &str) -> bool {
    let uri = Am7Uri::builder().organization(organization).object_type("system.user").id(id);
    uri.build().is_ok_and(|uri| uri.id() == Some(id))
}

/// Returns the URI of the user of an id.
pub(crate) fn user_uri(id: &str, organization: &str) -> String {
    format!("am7://{organization}/system.user/{id}")
}

/// Returns the URI of a group that tokens name. It has no record. Users cannot choose the ids of
/// groups that they create, so none of them can take its place.
pub(crate) fn group_uri(name: &str, organization: &str) -> String {
    let id = format!("group-{name}");
    let id = if can_be_id(&id, organization) {
        id
    } else {
        format!("group-{}", &blake3::hash(name.as_bytes()).to_hex()[..32])
    };
    format!("am7://{organization}/auth.group/{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as `Knowledge::LOCAL_USER`.
    const LOCAL_USER: &str = "local";

    fn id(issuer: Option<&str>, subject: &str) -> String {
        user_id(&Principal::new(issuer.map(str::to_owned), subject), "default")
    }

    #[test]
    fn two_principals_never_share_an_id() {
        assert_eq!(id(None, "ci"), "ci");
        // A token of this name is the local user.
        assert_eq!(id(None, LOCAL_USER), LOCAL_USER);
        let login = Some("https://login.example");
        let ids = [
            id(None, "ci"),
            id(None, "../ci"),
            id(None, "c/i"),
            id(login, "ci"),
            id(login, "local"),
            id(Some("https://other.example"), "ci"),
        ];
        for (index, one) in ids.iter().enumerate() {
            assert!(ids.iter().skip(index + 1).all(|other| other != one), "{ids:?}");
            assert!(one != LOCAL_USER);
        }
    }
}
