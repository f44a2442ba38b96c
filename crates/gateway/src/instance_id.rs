//! Replaces `${instance:id}` in the options of an instance, so that programs can keep the files of
//! each caller apart.

use std::path::PathBuf;

use crate::options::{Transport, UpstreamOptions};

/// The reference to the id of an instance.
const REFERENCE: &str = "${instance:id}";

/// The id of the upstream itself, whose lists all callers see.
const OWN_ID: &str = "lists";

/// Returns the options of an upstream for the instance with this id; without one, for the upstream
/// itself.
pub(crate) fn for_instance(options: &UpstreamOptions, id: Option<&str>) -> UpstreamOptions {
    let mut options = options.clone();
    let id = id.unwrap_or(OWN_ID);
    match &mut options.transport {
        Transport::Stdio { command, args, env, cwd } => {
            replace(command, id);
            args.iter_mut().chain(env.values_mut()).for_each(|text| replace(text, id));
            if let Some(text) = cwd.as_ref().and_then(|cwd| cwd.to_str())
                && text.contains(REFERENCE)
            {
                *cwd = Some(PathBuf::from(text.replace(REFERENCE, id)));
            }
        }
        Transport::Http { url, headers, .. } => {
            replace(url, id);
            headers.values_mut().for_each(|text| replace(text, id));
        }
        Transport::Unusable { .. } => {}
    }
    options
}

fn replace(text: &mut String, id: &str) {
    if text.contains(REFERENCE) {
        *text = text.replace(REFERENCE, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_replaced_wherever_a_transport_has_text() {
        let mut options = UpstreamOptions::new("a", Transport::stdio("x", ["--to=${instance:id}"]));
        let Transport::Stdio { env, cwd, .. } = &mut options.transport else { unreachable!() };
        env.insert("FILE".to_owned(), "/srv/${instance:id}/${instance:id}.json".to_owned());
        env.insert("OTHER".to_owned(), "${instance}".to_owned());
        *cwd = Some("/srv/${instance:id}".into());
        let Transport::Stdio { args, env, cwd, .. } = for_instance(&options, Some("7f")).transport
        else {
            unreachable!()
        };
        assert_eq!((args, cwd), (vec!["--to=7f".to_owned()], Some("/srv/7f".into())));
        assert_eq!((&*env["FILE"], &*env["OTHER"]), ("/srv/7f/7f.json", "${instance}"));

        let mut http = Transport::http("http://h/${instance:id}");
        let Transport::Http { headers, .. } = &mut http else { unreachable!() };
        headers.insert("X-Caller".to_owned(), "${instance:id}".to_owned());
        let options = for_instance(&UpstreamOptions::new("a", http), None);
        let Transport::Http { url, headers, .. } = options.transport else { unreachable!() };
        assert_eq!((&*url, &*headers["X-Caller"]), ("http://h/lists", "lists"));
    }
}
