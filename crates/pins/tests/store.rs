//! Pins in a file: what is trusted, what waits, and what survives.

use std::{fs, path::PathBuf};

use marquetry_pins::{
    AcceptedPin, Definition, Kind, PinChange, PinError, PinEvent, PinFile, PinStore, Verdict,
    accept, forget,
};
use serde_json::{Value, json};

struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("state/pins.json")
    }

    fn open(&self) -> PinStore {
        PinStore::open(self.path())
    }

    fn file(&self) -> PinFile {
        PinFile::read(&self.path()).unwrap()
    }

    /// Returns the acceptance of all that waits.
    fn waiting(&self) -> Vec<AcceptedPin> {
        self.file().items().filter_map(|item| AcceptedPin::of(&item)).collect()
    }
}

fn tool(name: &str, description: &str) -> Definition {
    Definition::tool(name, &json!({"name": name, "description": description})).unwrap()
}

fn events(events: &[PinEvent]) -> Vec<(Kind, &str, PinChange)> {
    events.iter().map(|it| (it.kind, it.name.as_str(), it.change)).collect()
}

#[test]
fn the_first_sight_is_trusted_and_every_later_difference_waits() {
    let folder = Folder::new();
    let store = folder.open();
    let original = json!({
        "name": "t", "title": "T", "description": "d", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}, "_meta": {"a": 1},
    });
    fn of(value: &Value) -> [Definition; 1] {
        [Definition::tool("t", value).unwrap()]
    }
    assert_eq!(store.record("s", &of(&original)).unwrap(), []);
    assert_eq!(store.verdicts("s", &of(&original)), [Verdict::Pinned]);
    for (member, value) in [
        ("title", json!("U")),
        ("description", json!("d ")),
        ("inputSchema", json!({"type": "object", "properties": {}})),
        ("outputSchema", json!({"type": "array"})),
        ("annotations", json!({"readOnlyHint": false})),
        ("_meta", json!({"a": 2})),
        ("icons", json!([])),
    ] {
        let mut changed = original.clone();
        changed[member] = value;
        assert_eq!(store.verdicts("s", &of(&changed)), [Verdict::Changed], "{member}");
        let found = store.record("s", &of(&changed)).unwrap();
        assert_eq!(events(&found), [(Kind::Tool, "t", PinChange::Changed)]);
        assert_eq!(store.record("s", &of(&changed)).unwrap(), [], "it is reported once");
        assert_eq!(folder.waiting().len(), 1);
    }
    assert_eq!(store.record("s", &of(&original)).unwrap(), []);
    assert_eq!(folder.waiting(), [], "it is as before again");
}

#[test]
fn new_tools_prompts_and_instructions_wait_where_others_are_pinned() {
    let folder = Folder::new();
    let store = folder.open();
    let prompt = Definition::prompt("t", &json!({"name": "t"})).unwrap();
    let said = Definition::instructions("Be kind.").unwrap();
    store.record("s", &[tool("t", "d")]).unwrap();
    assert_eq!(store.verdicts("s", &[tool("u", "d")]), [Verdict::New]);
    // Its prompts arrive later than its tools.
    assert_eq!(store.verdicts("s", std::slice::from_ref(&prompt)), [Verdict::FirstSight]);
    // It had none when it introduced itself.
    assert_eq!(store.verdicts("s", std::slice::from_ref(&said)), [Verdict::New]);
    assert_eq!(store.verdicts("other", std::slice::from_ref(&said)), [Verdict::FirstSight]);
    let all = [said, tool("t", "d"), tool("u", "d"), prompt.clone()];
    let found = store.record("s", &all).unwrap();
    let new = PinChange::New;
    assert_eq!(events(&found), [(Kind::Tool, "u", new), (Kind::Instructions, "", new)]);
    let second = Definition::prompt("second", &json!({})).unwrap();
    assert_eq!(store.verdicts("s", &[prompt, second]), [Verdict::Pinned, Verdict::New]);
}

#[test]
fn an_empty_list_is_no_first_sight() {
    let folder = Folder::new();
    let store = folder.open();
    store.record("s", &[]).unwrap();
    assert!(!folder.path().exists());
    assert_eq!(store.verdicts("s", &[tool("t", "d")]), [Verdict::FirstSight]);
}

#[test]
fn of_two_tools_with_one_name_the_second_differs() {
    let folder = Folder::new();
    let store = folder.open();
    let both = [tool("t", "d"), tool("t", "e")];
    store.record("s", &both).unwrap();
    assert_eq!(store.verdicts("s", &both), [Verdict::Pinned, Verdict::Changed]);
}

#[test]
fn accepting_takes_what_was_shown_and_another_program_learns_of_it() {
    let folder = Folder::new();
    let store = folder.open();
    store.record("s", &[tool("t", "d")]).unwrap();
    store.record("s", &[tool("t", "e"), tool("u", "d")]).unwrap();
    let shown = folder.waiting();
    assert_eq!(shown.len(), 2);
    store.record("s", &[tool("t", "f")]).unwrap();
    let error = accept(&folder.path(), &shown).unwrap_err();
    assert!(matches!(error, PinError::ChangedMeanwhile { .. }), "{error}");
    assert_eq!(store.refresh().unwrap(), None, "nothing was accepted");
    accept(&folder.path(), &folder.waiting()).unwrap();
    assert_eq!(store.verdicts("s", &[tool("t", "f")]), [Verdict::Changed], "not read again yet");
    let found = store.refresh().unwrap().unwrap();
    let accepted = PinChange::Accepted;
    assert_eq!(events(&found), [(Kind::Tool, "t", accepted), (Kind::Tool, "u", accepted)]);
    let now = [tool("t", "f"), tool("u", "d"), tool("t", "d")];
    let want = [Verdict::Pinned, Verdict::Pinned, Verdict::Changed];
    assert_eq!(store.verdicts("s", &now), want);
    assert_eq!(store.refresh().unwrap(), None);
}

#[test]
fn programs_with_one_file_lose_nothing_of_each_other() {
    const PROGRAMS: usize = 8;
    const SERVERS: usize = 5;
    let folder = Folder::new();
    std::thread::scope(|scope| {
        for program in 0..PROGRAMS {
            let folder = &folder;
            scope.spawn(move || {
                let store = folder.open();
                for server in 0..SERVERS {
                    let name = format!("{program}.{server}");
                    store.record(&name, &[tool("t", &name)]).unwrap();
                    store.record("shared", &[tool(&name, &name)]).unwrap();
                }
            });
        }
    });
    let file = folder.file();
    assert_eq!(file.servers().count(), PROGRAMS * SERVERS + 1);
    // One of them was the first sight; all others wait.
    let shared: Vec<_> = file.items().filter(|it| it.server == "shared").collect();
    let tools = shared.iter().filter(|it| it.kind == Kind::Tool);
    assert_eq!(tools.clone().count(), PROGRAMS * SERVERS);
    assert_eq!(tools.filter(|it| it.waiting.is_some()).count(), PROGRAMS * SERVERS - 1);
}

#[test]
fn a_damaged_file_is_named_and_stays() {
    let folder = Folder::new();
    let store = folder.open();
    store.record("s", &[tool("t", "secret of t")]).unwrap();
    let whole = fs::read_to_string(folder.path()).unwrap();
    for damaged in [
        String::new(),
        whole[..whole.len() / 2].to_owned(),
        whole.replace("pins 1", "pins 2"),
        whole.replace("secret of t", "secret of u"),
        whole.replace("\"tools\"", "\"toots\""),
    ] {
        fs::write(folder.path(), &damaged).unwrap();
        let store = folder.open();
        let problem = store.problem().unwrap();
        assert!(problem.contains("pins.json is damaged: "), "{problem}");
        assert_eq!(store.verdicts("s", &[tool("t", "d")]), [Verdict::Unknown]);
        assert!(matches!(store.record("s", &[tool("t", "d")]), Err(PinError::Damaged { .. })));
        assert!(matches!(forget(&folder.path(), "s"), Err(PinError::Damaged { .. })));
        assert_eq!(fs::read_to_string(folder.path()).unwrap(), damaged);
    }
    // The program that runs keeps what it knows.
    assert!(store.refresh().is_err());
    let known = [tool("t", "secret of t"), tool("t", "d"), tool("u", "d")];
    assert_eq!(store.verdicts("s", &known), [Verdict::Pinned, Verdict::Changed, Verdict::New]);
    assert_eq!(store.verdicts("other", &[tool("t", "d")]), [Verdict::Unknown]);
    fs::write(folder.path(), &whole).unwrap();
    store.refresh().unwrap();
    assert_eq!(store.problem(), None);
}

#[cfg(unix)]
#[test]
fn the_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    folder.open().record("s", &[tool("t", "d")]).unwrap();
    let path = folder.path();
    fn mode(path: &std::path::Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
    let problem = folder.open().problem().unwrap();
    assert!(problem.contains("can be changed by other users"), "{problem}");
}

#[test]
fn long_texts_are_pinned_by_their_hash_alone() {
    let folder = Folder::new();
    let store = folder.open();
    let long = tool("long", &"x".repeat(70_000));
    let many: Vec<_> = (0..40).map(|it| tool(&it.to_string(), &"y".repeat(60_000))).collect();
    let all = [vec![long.clone()], many].concat();
    store.record("s", &all).unwrap();
    assert_eq!(store.verdicts("s", &all), [Verdict::Pinned; 41]);
    let file = folder.file();
    let texts = file.items().filter_map(|it| it.accepted?.text()).count();
    assert_eq!(texts, 34, "2 MiB of texts");
    let of_long = file.items().find(|it| it.name == "long").unwrap().accepted.unwrap();
    assert_eq!((of_long.hash(), of_long.text()), (long.hash(), None));
}

#[test]
fn names_and_numbers_have_bounds() {
    let folder = Folder::new();
    let store = folder.open();
    store.record(&"s".repeat(600), &[tool("t", "d")]).unwrap();
    store.record("s", &[tool(&"t".repeat(600), "d")]).unwrap();
    assert_eq!(store.verdicts("s", &[tool(&"t".repeat(600), "d")]), [Verdict::New]);
    let many: Vec<_> = (0..10_050).map(|it| tool(&it.to_string(), "d")).collect();
    store.record("m", &many).unwrap();
    assert_eq!(folder.file().items().filter(|it| it.kind == Kind::Tool).count(), 10_000);
}

#[test]
fn a_server_can_be_forgotten() {
    let folder = Folder::new();
    let store = folder.open();
    store.record("s", &[tool("t", "d")]).unwrap();
    let error = forget(&folder.path(), "x").unwrap_err().to_string();
    assert_eq!(error, "no server with pins is called \"x\"");
    forget(&folder.path(), "s").unwrap();
    store.refresh().unwrap();
    assert_eq!(store.verdicts("s", &[tool("t", "e")]), [Verdict::FirstSight]);
}

#[test]
fn a_lock_that_is_never_released_is_reported() {
    let folder = Folder::new();
    folder.open().record("s", &[tool("t", "d")]).unwrap();
    let lock = fs::File::open(format!("{}.lock", folder.path().display())).unwrap();
    lock.lock().unwrap();
    let error = folder.open().record("s", &[tool("t", "e")]).unwrap_err();
    assert!(matches!(error, PinError::Locked { .. }), "{error}");
}
