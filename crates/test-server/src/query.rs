//! Filters of stored results as query strings.

#[cfg(any(feature = "api", test))]
use marquetry_judge::Status;
use marquetry_judge::store::ResultFilter;

/// Results in a page at most.
#[cfg(any(feature = "api", test))]
const MAX_LIMIT: u32 = 200;

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
        let wrong = |wanted: &str| format!("{name} is {value:?}; expected {wanted}");
        let time = || value.parse().map_err(|_| wrong("a time such as 2026-01-31T12:00:00Z"));
        match &*name {
            "name" => filter.name = Some(value.into_owned()),
            "run" => filter.run = Some(value.into_owned()),
            "cursor" => filter.page.cursor = Some(value.into_owned()),
            "status" => {
                let all = [Status::Passed, Status::Failed, Status::Error];
                let status = all.into_iter().find(|status| status.as_str() == value);
                filter.status = Some(status.ok_or_else(|| wrong("passed, failed or error"))?);
            }
            "since" => filter.since = Some(time()?),
            "until" => filter.until = Some(time()?),
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                filter.page.limit = Some(limit.ok_or_else(|| wrong("a number from 1 to 200"))?);
            }
            _ => {
                let known = PARAMETERS.map(|(name, ..)| name).join(", ");
                return Err(format!("{name:?} is unknown; the parameters are {known}"));
            }
        }
    }
    Ok(filter)
}

/// Returns the values of the parameters of these names. The error is a sentence about the parameter that is unknown.
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
