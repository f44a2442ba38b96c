//! Filters of stored results as query strings.

use marquetry_judge::store::ResultFilter;
#[cfg(any(feature = "api", test))]
use marquetry_judge::store::{ConfigurationFilter, ConfigurationOrigin, PageRequest};
#[cfg(any(feature = "api", test))]
use marquetry_judge::{Status, Timestamp};

/// Name, description and type of each parameter.
#[cfg(any(feature = "api", test))]
pub(crate) const PARAMETERS: [(&str, &str, &str); 7] = [
    ("name", "Name of the test.", "text"),
    ("status", "Outcome of the test.", "status"),
    ("run", "Id of a run.", "text"),
    ("since", "Not older than this time (RFC 3339).", "time"),
    ("until", "Older than this time (RFC 3339).", "time"),
    (
        "limit",
        "Items in a page at most: 50 by default, up to 200. A page of results also ends before about 16 MiB.",
        "integer",
    ),
    ("cursor", "`nextCursor` of the page before.", "text"),
];

/// Parses a query string; the error is a sentence about the parameter that is unknown or wrong.
#[cfg(any(feature = "api", test))]
pub(crate) fn parse(text: &str) -> Result<ResultFilter, String> {
    let mut filter = ResultFilter::default();
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        match &*name {
            "name" => filter.name = Some(value.into_owned()),
            "run" => filter.run = Some(value.into_owned()),
            "cursor" => filter.page.cursor = Some(value.into_owned()),
            "status" => {
                let all = [Status::Passed, Status::Failed, Status::Error];
                let status = all.into_iter().find(|status| status.as_str() == value);
                let status =
                    status.ok_or_else(|| wrong_value(&name, &value, "passed, failed or error"))?;
                filter.status = Some(status);
            }
            "since" => filter.since = Some(time_of(&name, &value)?),
            "until" => filter.until = Some(time_of(&name, &value)?),
            "limit" => filter.page.limit = Some(limit_of(&value)?),
            _ => {
                let known = PARAMETERS.map(|(name, ..)| name).join(", ");
                return Err(format!("{name:?} is unknown; the parameters are {known}"));
            }
        }
    }
    Ok(filter)
}

#[cfg(any(feature = "api", test))]
fn wrong_value(name: &str, value: &str, wanted: &str) -> String {
    format!("{name} is {value:?}; expected {wanted}")
}

#[cfg(any(feature = "api", test))]
fn time_of(name: &str, value: &str) -> Result<Timestamp, String> {
    value.parse().map_err(|_| wrong_value(name, value, "a time such as 2026-01-31T12:00:00Z"))
}

#[cfg(any(feature = "api", test))]
fn limit_of(value: &str) -> Result<u32, String> {
    // The stores would cut a page of a larger limit short without a word.
    let limit = value.parse().ok().filter(|limit| (1..=PageRequest::MAX_LIMIT).contains(limit));
    let wanted = format!("a number from 1 to {}", PageRequest::MAX_LIMIT);
    limit.ok_or_else(|| wrong_value("limit", value, &wanted))
}

/// Parses the query string of a list of configurations, as [`parse`].
#[cfg(any(feature = "api", test))]
pub(crate) fn configurations(text: &str) -> Result<ConfigurationFilter, String> {
    let [name, origin, limit, cursor] = values(text, ["name", "origin", "limit", "cursor"])?;
    let mut filter = ConfigurationFilter::default();
    if let Some(given) = origin {
        let all = [ConfigurationOrigin::Created, ConfigurationOrigin::Derived];
        let origin = all.into_iter().find(|origin| origin.as_str() == given);
        let origin = origin.ok_or_else(|| wrong_value("origin", &given, "created or derived"))?;
        filter.origin = Some(origin);
    }
    filter.page.limit = limit.as_deref().map(limit_of).transpose()?;
    filter.name = name;
    filter.page.cursor = cursor;
    Ok(filter)
}

/// Returns the values of the parameters of these names. The error is a sentence about the parameter
/// that is unknown.
#[cfg(any(feature = "api", test))]
pub(crate) fn values<const N: usize>(
    text: &str,
    names: [&str; N],
) -> Result<[Option<String>; N], String> {
    let mut found = [const { None }; N];
    for (name, value) in form_urlencoded::parse(text.as_bytes()) {
        let Some(at) = names.iter().position(|known| *known == name) else {
            return Err(format!("{name:?} is unknown; the parameters are {}", names.join(", ")));
        };
        found[at] = Some(value.into_owned());
    }
    Ok(found)
}

/// Returns the query string of a filter.
#[cfg(any(feature = "client", test))]
pub(crate) fn write(filter: &ResultFilter) -> String {
    let values = [
        ("name", filter.name.clone()),
        ("status", filter.status.map(|status| status.to_string())),
        ("run", filter.run.clone()),
        ("since", filter.since.map(|time| time.to_string())),
        ("until", filter.until.map(|time| time.to_string())),
        ("limit", filter.page.limit.map(|limit| limit.to_string())),
        ("cursor", filter.page.cursor.clone()),
    ];
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in values {
        query.extend_pairs(value.map(|value| (name, value)));
    }
    query.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_written_and_read() {
        let mut filter = ResultFilter::default();
        filter.name = Some("a & b".to_owned());
        filter.status = Some(Status::Failed);
        filter.run = Some("r1".to_owned());
        filter.since = "2026-11-22T20:00:00Z".parse().ok();
        filter.until = "2026-11-22T21:00:00.5Z".parse().ok();
        filter.page.limit = Some(3);
        filter.page.cursor = Some("c/1=".to_owned());
        assert!(filter.since.is_some() && filter.until.is_some());
        assert_eq!(parse(&write(&filter)), Ok(filter));
        assert_eq!(parse(""), Ok(ResultFilter::default()));
    }

    #[test]
    fn queries_of_configurations_are_parsed() {
        let mut filter = ConfigurationFilter::default();
        filter.name = Some("a b".to_owned());
        filter.origin = Some(ConfigurationOrigin::Derived);
        filter.page.limit = Some(200);
        filter.page.cursor = Some("c~1".to_owned());
        assert_eq!(configurations("name=a+b&origin=derived&limit=200&cursor=c~1"), Ok(filter));
        for (text, want) in [
            ("origin=mine", "origin is \"mine\"; expected created or derived"),
            ("limit=201", "limit is \"201\"; expected a number from 1 to 200"),
            ("id=1", "\"id\" is unknown; the parameters are name, origin, limit, cursor"),
        ] {
            assert_eq!(configurations(text), Err(want.to_owned()));
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        for (text, want) in [
            (
                "state=passed",
                "\"state\" is unknown; the parameters are name, status, run, since, until, limit, cursor",
            ),
            ("status=green", "status is \"green\"; expected passed, failed or error"),
            ("limit=0", "limit is \"0\"; expected a number from 1 to 200"),
            ("limit=201", "limit is \"201\"; expected a number from 1 to 200"),
            (
                "since=yesterday",
                "since is \"yesterday\"; expected a time such as 2026-01-31T12:00:00Z",
            ),
        ] {
            assert_eq!(parse(text), Err(want.to_owned()));
        }
    }
}
