//! Tests of decisions, grants and warnings.

use marquetry_approvals::AskWhen;
use proptest::prelude::*;

use super::*;

fn names(patterns: &[&str]) -> Patterns {
    Patterns::names(patterns.iter().copied()).unwrap()
}

fn uris(patterns: &[&str]) -> Patterns {
    Patterns::uris(patterns.iter().copied()).unwrap()
}

fn allow(patterns: &[&str]) -> Access {
    Access::new().allow(names(patterns))
}

fn decide(policy: &Policy, caller: &Caller, item: &Item<'_>) -> Decision {
    policy.decide(&policy.grants(caller), item)
}

/// The policy of the specification.
fn specified() -> Policy {
    let ci = Rule::new()
        .principals(names(&["ci"]))
        .upstreams(names(&["git*"]))
        .tools(allow(&["get_*"]).deny(names(&["*secret*"])))
        .resources(Access::new().allow(uris(&["repo://acme/**"])));
    let write = Rule::new()
        .scopes(["repo:write"])
        .with_step_up()
        .upstreams(names(&["github"]))
        .tools(allow(&["*"]));
    Policy::new([ci, write])
}

#[test]
fn rules_add_up_and_deny_wins() {
    let policy = specified();
    let ci = Caller::new("ci");
    let writer = Caller::new("ci").with_scopes(["repo:write"]);
    let ann = Caller::new("https://login.example ann");
    let step_up = Decision::StepUp { rule: 1, scopes: ["repo:write".to_owned()].into() };
    for (caller, upstream, tool, want) in [
        (&ci, "github", "get_x", Decision::Allowed { rule: 0 }),
        (&ci, "gitlab", "get_x", Decision::Allowed { rule: 0 }),
        (&ci, "files", "get_x", Decision::NotAllowed),
        (&ci, "github", "get_secret", Decision::Denied { rule: 0 }),
        (&ci, "github", "push", step_up.clone()),
        (&ci, "gitlab", "push", Decision::NotAllowed),
        (&writer, "github", "push", Decision::Allowed { rule: 1 }),
        (&writer, "github", "get_secret", Decision::Denied { rule: 0 }),
        (&ann, "github", "get_x", step_up),
        (&ann, "gitlab", "get_x", Decision::NotAllowed),
    ] {
        let found = decide(&policy, caller, &Item::tool(upstream, tool));
        assert_eq!(found, want, "{caller:?} {upstream} {tool}");
    }
    assert_eq!(decide(&policy, &ci, &Item::prompt("github", "get_x")), Decision::NotAllowed);
}

#[test]
fn without_rules_everything_is_allowed() {
    let policy = Policy::default();
    let item = Item::tool("a", "b");
    assert_eq!(decide(&policy, &Caller::new("x"), &item), Decision::Unrestricted);
    assert!(policy.is_open_in(None) && !policy.is_open_in(Some("p")) && policy.is_empty());
    let nothing = Policy::new([Rule::new()]);
    assert_eq!(decide(&nothing, &Caller::new("x"), &item), Decision::NotAllowed);
}

#[test]
fn empty_lists_match_nobody() {
    let rule = Rule::new().principals(Patterns::default()).tools(allow(&["*"]));
    let policy = Policy::new([rule]);
    assert_eq!(decide(&policy, &Caller::new("a"), &Item::tool("a", "b")), Decision::NotAllowed);
}

#[test]
fn groups_are_alternatives_and_scopes_are_all_needed() {
    let rule = Rule::new().groups(names(&["dev", "ops"])).scopes(["a", "b"]).tools(allow(&["*"]));
    let policy = Policy::new([rule]);
    for (groups, scopes, want) in [
        (vec!["ops"], vec!["a", "b", "c"], true),
        (vec!["ops"], vec!["a"], false),
        (vec!["sales"], vec!["a", "b"], false),
        (vec![], vec!["a", "b"], false),
    ] {
        let caller = Caller::new("x").with_groups(groups.clone()).with_scopes(scopes.clone());
        let found = decide(&policy, &caller, &Item::tool("u", "t")).is_allowed();
        assert_eq!(found, want, "{groups:?} {scopes:?}");
    }
}

#[test]
fn spellings_of_a_uri_evade_nothing() {
    let resources = Access::new().allow(uris(&["repo://Acme/**"]));
    let resources = resources.deny(uris(&["repo://acme/secret/**"]));
    let policy = Policy::new([Rule::new().resources(resources)]);
    let caller = Caller::new("x");
    for (uri, want) in [
        ("repo://acme/a", true),
        ("REPO://ACME/a%20b", true),
        ("repo://acme/secret/a", false),
        ("repo://ACME/%73ecret/a", false),
        ("repo://acme/x/../secret/a", false),
        ("repo://acme/x/%2e%2e/secret/a", false),
        ("repo://acme/x%2f..%2fsecret/a", false),
        ("repo://acme/x%252f..%252fsecret/a", false),
        ("repo://acme//secret/a", false),
        ("repo://acme/x/..\\secret/a", false),
        ("repo://other/a", false),
        ("repo://acme/../other/a", false),
        ("repo://acme%2f..%2f..%2fother/a", false),
    ] {
        let found = decide(&policy, &caller, &Item::resource("u", uri)).is_allowed();
        assert_eq!(found, want, "{uri}");
    }
    let exact = Access::new().allow(uris(&["repo://acme/a%20b"]));
    let policy = Policy::new([Rule::new().resources(exact)]);
    assert!(decide(&policy, &caller, &Item::resource("u", "repo://acme/a%20b")).is_allowed());
}

#[test]
fn a_profile_narrows_what_rules_allow() {
    let profile = Profile::new()
        .upstreams(allow(&["github"]))
        .tools(allow(&["get_*"]))
        .prompts(Access::new().deny(names(&["*"])));
    let policy = specified().with_profile("reading", profile.clone());
    let ci = Caller::new("ci").in_profile("reading");
    let outside = Decision::OutsideProfile;
    for (item, want) in [
        (Item::tool("github", "get_x"), Decision::Allowed { rule: 0 }),
        (Item::tool("gitlab", "get_x"), outside.clone()),
        (Item::tool("github", "push"), outside.clone()),
        (Item::prompt("github", "p"), outside.clone()),
        (Item::resource("github", "repo://acme/x"), Decision::Allowed { rule: 0 }),
    ] {
        assert_eq!(decide(&policy, &ci, &item), want, "{item:?}");
    }
    let open = Policy::default().with_profile("reading", profile);
    let ann = Caller::new("ann").in_profile("reading");
    assert_eq!(decide(&open, &ann, &Item::tool("github", "get_x")), Decision::Unrestricted);
    assert_eq!(decide(&open, &ann, &Item::tool("github", "push")), outside);
    let unknown = Caller::new("ann").in_profile("other");
    assert_eq!(decide(&open, &unknown, &Item::tool("github", "get_x")), outside);
}

#[test]
fn upstreams_without_anything_allowed_are_hidden() {
    let policy = specified().with_profile("labs", Profile::new().upstreams(allow(&["gitlab"])));
    let shows = |caller: &Caller| {
        let grants = policy.grants(caller);
        ["github", "gitlab", "files"].map(|name| policy.shows_upstream(&grants, name))
    };
    assert_eq!(shows(&Caller::new("ci")), [true, true, false]);
    assert_eq!(shows(&Caller::new("ann")), [true, false, false]);
    assert_eq!(shows(&Caller::new("ci").in_profile("labs")), [false, true, false]);
    assert_eq!(shows(&Caller::new("ci").in_profile("unknown")), [false, false, false]);
}

#[test]
fn step_up_asks_for_the_scopes_that_the_caller_has_too() {
    let read = Rule::new().scopes(["repo:read"]).tools(allow(&["get_*"]));
    let write = Rule::new().scopes(["repo:write"]).with_step_up().tools(allow(&["push"]));
    let policy = Policy::new([read, write]);
    let caller = Caller::new("x").with_scopes(["repo:read", "openid"]);
    let Decision::StepUp { scopes, .. } = decide(&policy, &caller, &Item::tool("u", "push")) else {
        panic!()
    };
    assert_eq!(scopes.into_iter().collect::<Vec<_>>(), ["repo:read", "repo:write"]);
}

#[test]
fn decisions_are_explained() {
    let policy = specified().with_profile("p", Profile::new().tools(allow(&["x"])));
    let ci = Caller::new("ci");
    for (caller, item, want) in [
        (&ci, Item::tool("github", "get_x"), "allowed by policy.rules[0], pattern \"get_*\""),
        (
            &ci,
            Item::tool("github", "get_secret"),
            "denied by policy.rules[0], pattern \"*secret*\"",
        ),
        (
            &ci,
            Item::tool("github", "push"),
            "listed by policy.rules[1]; a call needs the scopes \"repo:write\", pattern \"*\"",
        ),
        (&ci, Item::tool("files", "get_x"), "denied: no rule of this caller allows it"),
        (
            &ci.clone().in_profile("p"),
            Item::tool("github", "get_x"),
            "denied: it is not in the profile",
        ),
    ] {
        assert_eq!(policy.explain(caller, &item).to_string(), want);
    }
    let open = Policy::default().explain(&ci, &Item::tool("a", "b"));
    assert_eq!(open.to_string(), "allowed: there are no rules");
}

#[test]
fn faults_are_refused() {
    let place = |policy: Policy| policy.check().map_err(|(place, why)| format!("{place}: {why}"));
    assert_eq!(place(specified()), Ok(()));
    let step_up = Rule::new().with_step_up();
    assert_eq!(
        place(Policy::new([step_up])).unwrap_err(),
        "policy.rules[0]: \"step_up\" needs \"scopes\": the scopes that a call needs"
    );
    let named = Policy::default().with_profile("a/b", Profile::new());
    assert_eq!(
        place(named).unwrap_err(),
        "profiles: \"a/b\" is not a name of a profile: expected up to 64 of a-z, A-Z, 0-9, -, _"
    );
    let many = Policy::new(vec![Rule::new(); 257]);
    assert_eq!(place(many).unwrap_err(), "policy.rules: there are more than 256 of them");
    for (error, want) in [
        (Patterns::names(["{a}"]), "\"{a}\" is not a pattern: '{' is not supported"),
        (Patterns::uris(["a://b/../c"]), "\"a://b/../c\" has the segment \"..\""),
        (Patterns::names(vec!["a"; 257]), "the list has more than 256 patterns"),
    ] {
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
    }
}

#[test]
fn parts_without_effect_are_warned_about() {
    let known = Inventory::of_upstreams(["github", "files"])
        .with_principals(["ci", "ann"])
        .with_items("github", ItemKind::Tool, ["get_issue", "push"]);
    let warnings = |policy: Policy| -> Vec<String> {
        policy.warnings(&known).iter().map(ToString::to_string).collect()
    };
    let good = Rule::new().upstreams(names(&["github"])).tools(allow(&["get_*"]));
    assert_eq!(warnings(Policy::new([good.clone()])), [""; 0]);
    let policy = Policy::new([
        good,
        Rule::new(),
        Rule::new().principals(names(&["cl"])).upstreams(names(&["githab"])).tools(allow(&["*"])),
        Rule::new().upstreams(names(&["github"])).tools(allow(&["get_isue"])),
        Rule::new().tools(allow(&["delete_*"]).deny(names(&["*"]))),
    ]);
    assert_eq!(
        warnings(policy.with_profile("p", Profile::new().upstreams(allow(&["x"])))),
        [
            "policy.rules[0].tools.allow: \"get_*\" allows nothing, because policy.rules[4] denies all of it",
            "policy.rules[1]: it allows and denies nothing; add \"tools\", \"prompts\" or \"resources\", for example tools = { allow = [\"*\"] }",
            "policy.rules[2].principals: \"cl\" matches no token; did you mean \"ci\"?",
            "policy.rules[2].upstreams: \"githab\" matches no server; did you mean \"github\"?",
            "policy.rules[2].tools.allow: \"*\" allows nothing, because policy.rules[4] denies all of it",
            "policy.rules[3].tools.allow: \"get_isue\" allows nothing, because policy.rules[4] denies all of it",
            "policy.rules[4].tools.allow: \"delete_*\" allows nothing, because policy.rules[4] denies all of it",
            "profiles.p.upstreams: \"x\" matches no server",
            "policy.rules[3].tools.allow: \"get_isue\" matches no tool; did you mean \"get_issue\"?",
        ]
    );
}

/// A naive statement of the rules, to compare decisions with.
fn is_allowed(rules: &[Rule], caller: &Caller, tool: &str) -> bool {
    let theirs: Vec<&Rule> = rules
        .iter()
        .filter(|rule| {
            rule.principals.as_ref().is_none_or(|it| it.matches(caller.principal()))
                && rule.scopes.iter().all(|scope| caller.has_scope(scope))
        })
        .collect();
    !theirs.iter().any(|rule| rule.tools.deny.matches(tool))
        && theirs.iter().any(|rule| rule.tools.allow.as_ref().is_some_and(|it| it.matches(tool)))
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let pattern = "[ab*]{1,2}";
    let scopes = proptest::collection::vec("[st]", 0..2);
    let lists = (proptest::option::of(pattern), proptest::option::of(pattern));
    (proptest::option::of(pattern), scopes, lists).prop_map(|(principal, scopes, (yes, no))| {
        let mut tools = Access::new().deny(Patterns::names(no).unwrap());
        tools.allow = yes.map(|yes| Patterns::names([yes]).unwrap());
        let mut rule = Rule::new().scopes(scopes).tools(tools);
        rule.principals = principal.map(|it| Patterns::names([it]).unwrap());
        rule
    })
}

proptest! {
    #[test]
    fn decisions_are_as_the_naive_statement(
        rules in proptest::collection::vec(any_rule(), 1..5),
        principal in "[ab]{1,2}", scopes in proptest::collection::vec("[st]", 0..2), tool in "[ab]{1,2}",
    ) {
        let caller = Caller::new(principal).with_scopes(scopes);
        let policy = Policy::new(rules);
        let found = decide(&policy, &caller, &Item::tool("u", &tool)).is_allowed();
        prop_assert_eq!(found, is_allowed(policy.rules(), &caller, &tool));
    }
}

#[test]
fn the_strictest_rule_of_a_caller_asks() {
    let all = Access::new().allow(names(&["*"]));
    let policy = Policy::new([
        Rule::new().tools(all.clone()).ask(AskWhen::Destructive),
        Rule::new().principals(names(&["ci"])).upstreams(names(&["git*"])).ask(AskWhen::Always),
        Rule::new().tools(Access::new().allow(names(&["get_*"]))).ask(AskWhen::OpenWorld),
    ]);
    let reads =
        ToolHints { read_only: Some(true), open_world: Some(false), ..ToolHints::default() };
    for (principal, upstream, tool, hints, want) in [
        ("ann", "github", "get_x", reads, None),
        (
            "ann",
            "github",
            "delete",
            ToolHints::default(),
            Some("policy.rules[0].ask = \"destructive\""),
        ),
        ("ci", "github", "get_x", reads, Some("policy.rules[1].ask = \"always\"")),
        ("ci", "files", "get_x", reads, None),
        (
            "ann",
            "files",
            "get_x",
            ToolHints { read_only: Some(true), ..ToolHints::default() },
            Some("policy.rules[2].ask = \"open-world\""),
        ),
    ] {
        let grants = policy.grants(&Caller::new(principal));
        let asks = policy.question_before(&grants, &Item::tool(upstream, tool), &hints);
        assert_eq!(asks.as_deref(), want, "{principal} {upstream} {tool}");
    }
}
