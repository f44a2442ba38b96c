//! Contents of records over HTTP, as files and thumbnails.

use std::{io::Cursor, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use image::{DynamicImage, ImageFormat, Rgba, RgbaImage};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{Running, token_of, users_toml, within};

/// An HTTP answer with its bytes.
struct File {
    status: u16,
    head: String,
    bytes: Vec<u8>,
}

impl File {
    #[track_caller]
    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let (_, value) = found.next().unwrap_or_else(|| panic!("no {name}: {}", self.head));
        assert!(found.next().is_none(), "{name} twice: {}", self.head);
        value
    }

    fn has(&self, name: &str) -> bool {
        self.head.to_ascii_lowercase().contains(&format!("\r\n{name}: "))
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("no JSON: {}", self.head))
    }

    #[track_caller]
    fn refusal(&self) -> (u16, String) {
        let json = self.json();
        assert_eq!(json.as_object().unwrap().len(), 2, "{json}");
        (
            self.status,
            format!("{}: {}", json["code"].as_str().unwrap(), json["message"].as_str().unwrap()),
        )
    }
}

impl Running {
    async fn file(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> File {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all((request + "\r\n").as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        within(stream.read_to_end(&mut bytes)).await.unwrap();
        let end = bytes.windows(4).position(|end| end == b"\r\n\r\n").expect("a whole head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        File { status, head, bytes: bytes.split_off(end + 4) }
    }

    async fn get(&self, path: &str) -> File {
        self.file("GET", path, &[]).await
    }

    /// Stores a record with this content, and returns its path.
    async fn stored(&self, token: &str, name: &str, media_type: &str, bytes: &[u8]) -> String {
        let mut new = json!({"type": "data.data", "name": name, "groupPath": "~/Test"});
        if !media_type.is_empty() {
            new["mediaType"] = json!(media_type);
            new["contentBase64"] = json!(STANDARD.encode(bytes));
        }
        let body = json!({"name": "am7_create_object", "arguments": new}).to_string();
        let mut headers = vec![("Content-Type", "application/json")];
        if !token.is_empty() {
            headers.push(("Authorization", token));
        }
        let made = self.http("POST", "/mcp/v1/tools/call", &headers, body.as_bytes()).await.json();
        let uri = made["structuredContent"]["uri"].as_str().unwrap_or_else(|| panic!("{made}"));
        uri.replace("am7://", "/media/")
    }
}

async fn server(folder: &Path, settings: &str) -> Running {
    let database = folder.join("knowledge.db");
    Running::start(&format!("{settings}\n[knowledge]\ndatabase = '{}'\n", database.display())).await
}

fn picture(width: u32, height: u32, alpha: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    DynamicImage::from(RgbaImage::from_pixel(width, height, Rgba([200, 9, 9, alpha])))
        .write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
        .unwrap();
    bytes
}

#[tokio::test]
async fn a_picture_is_shown_and_kept_by_browsers() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "").await;
    let png = picture(300, 100, 255);
    let path = server.stored("", "a \"portrait\".png", "image/png", &png).await;
    let file = server.get(&path).await;
    assert_eq!((file.status, &file.bytes), (200, &png), "{}", file.head);
    for (name, want) in [
        ("content-type", "image/png"),
        ("content-length", &*png.len().to_string()),
        ("cache-control", "private, no-cache"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
        ("accept-ranges", "bytes"),
        ("content-disposition", "inline; filename*=UTF-8''a%20%22portrait%22%2Epng"),
    ] {
        assert_eq!(file.header(name), want);
    }
    let policy = file.header("content-security-policy");
    assert!(policy.starts_with("sandbox; default-src 'none'; img-src 'self'"), "{policy}");
    let etag = file.header("etag").to_owned();
    assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag}");

    let head = server.file("HEAD", &path, &[]).await;
    assert_eq!((head.status, head.bytes.len()), (200, 0));
    assert_eq!(head.header("content-length"), png.len().to_string());
    assert_eq!(head.header("etag"), etag);

    for same in [etag.clone(), format!("\"other\", W/{etag}"), "*".to_owned()] {
        let file = server.file("GET", &path, &[("If-None-Match", &same)]).await;
        assert_eq!(
            (file.status, file.bytes.len(), file.header("etag")),
            (304, 0, &*etag),
            "{same}"
        );
        assert_eq!(file.header("cache-control"), "private, no-cache");
    }
    let other = server.file("GET", &path, &[("If-None-Match", "\"other\"")]).await;
    assert_eq!((other.status, &other.bytes), (200, &png));

    // Another content has another tag.
    let uri = path.replace("/media/", "am7://");
    let newer = picture(30, 10, 255);
    let change = json!({"uri": uri, "contentBase64": STANDARD.encode(&newer)});
    let body = json!({"name": "am7_update_object", "arguments": change}).to_string();
    assert_eq!(server.http("POST", "/mcp/v1/tools/call", &[], body.as_bytes()).await.status, 200);
    let file = server.file("GET", &path, &[("If-None-Match", &etag)]).await;
    assert_eq!((file.status, &file.bytes), (200, &newer));
    assert_ne!(file.header("etag"), etag);
    server.stop().await;
}

#[tokio::test]
async fn a_part_of_a_recording_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "").await;
    let path = server.stored("", "sound.ogg", "audio/ogg", b"0123456789").await;
    let etag = server.get(&path).await.header("etag").to_owned();
    for (range, want, content_range) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-1", "9", "bytes 9-9/10"),
        ("bytes=0-99", "0123456789", "bytes 0-9/10"),
    ] {
        let file = server.file("GET", &path, &[("Range", range), ("If-Range", &etag)]).await;
        let found = (file.status, &*file.bytes, file.header("content-range"));
        assert_eq!(found, (206, want.as_bytes(), content_range), "{range}");
        assert_eq!(file.header("content-length"), want.len().to_string());
        assert_eq!(file.header("etag"), etag);
    }
    let file = server.file("GET", &path, &[("Range", "bytes=10-")]).await;
    assert_eq!(file.header("content-range"), "bytes */10");
    let want = "range_not_satisfiable: the content has 10 bytes, none of which is in this range";
    assert_eq!(file.refusal(), (416, want.to_owned()));
    for ignored in [
        &[("Range", "bytes=2-4"), ("If-Range", "\"other\"")][..],
        &[("Range", "bytes=0-1,3-4")],
        &[("Range", "bytes=4-2")],
    ] {
        let file = server.file("GET", &path, ignored).await;
        assert_eq!((file.status, &*file.bytes), (200, &b"0123456789"[..]), "{ignored:?}");
        assert!(!file.has("content-range"));
    }
    // A browser that has this version gets no part of it.
    let file = server.file("GET", &path, &[("Range", "bytes=2-4"), ("If-None-Match", &etag)]).await;
    assert_eq!(file.status, 304);
    let head = server.file("HEAD", &path, &[("Range", "bytes=2-4")]).await;
    assert_eq!((head.status, head.header("content-length")), (200, "10"));
    server.stop().await;
}

#[tokio::test]
async fn a_page_cannot_act_as_this_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "").await;
    for media_type in ["text/html", "image/svg+xml", "application/xml", "text/javascript", "x/y"] {
        let page = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
        let path = server.stored("", "../page", media_type, page).await;
        // An SVG has no pixels and needs no thumbnail.
        let sizes = if media_type == "image/svg+xml" { &["", "?size=16"][..] } else { &[""] };
        for size in sizes {
            let file = server.get(&format!("{path}{size}")).await;
            assert_eq!((file.status, &*file.bytes), (200, &page[..]), "{media_type}");
            assert_eq!(file.header("content-type"), media_type);
            assert_eq!(file.header("x-content-type-options"), "nosniff");
            assert_eq!(file.header("content-security-policy"), "sandbox; default-src 'none'");
            let name = "attachment; filename*=UTF-8''%5Fpage";
            assert_eq!(file.header("content-disposition"), name);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_thumbnail_fits_and_has_a_tag_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "").await;
    let png = picture(300, 100, 255);
    let path = server.stored("", "portrait", "image/png", &png).await;
    let etag = server.get(&path).await.header("etag").to_owned();
    let small = format!("{path}?size=60");
    let file = server.get(&small).await;
    assert_eq!((file.status, file.header("content-type")), (200, "image/jpeg"), "{}", file.head);
    let name = "inline; filename*=UTF-8''portrait%2D60%2Ejpg";
    assert_eq!(file.header("content-disposition"), name);
    let shown = image::load_from_memory_with_format(&file.bytes, ImageFormat::Jpeg).unwrap();
    assert_eq!((shown.width(), shown.height()), (60, 20));
    let own = file.header("etag").to_owned();
    assert_ne!(own, etag);
    assert_ne!(own, server.get(&format!("{path}?size=61")).await.header("etag"));
    for (tag, want) in [(&own, 304), (&etag, 200)] {
        assert_eq!(server.file("GET", &small, &[("If-None-Match", tag)]).await.status, want);
    }
    let head = server.file("HEAD", &small, &[]).await;
    assert_eq!(head.header("content-length"), file.bytes.len().to_string());
    let part = server.file("GET", &small, &[("Range", "bytes=0-1")]).await;
    assert_eq!((part.status, &*part.bytes), (206, &file.bytes[..2]));

    // The same thumbnail as a resource of MCP.
    let uri = small.replace("/media/default/", "am7://default/media/");
    let body = json!({ "uri": uri }).to_string();
    let read = server.http("POST", "/mcp/v1/resources/read", &[], body.as_bytes()).await.json();
    let contents = &read["contents"][0];
    assert_eq!((&contents["uri"], &contents["mimeType"]), (&json!(uri), &json!("image/jpeg")));
    assert_eq!(STANDARD.decode(contents["blob"].as_str().unwrap()).unwrap(), file.bytes);

    let clear = server.stored("", "clear.png", "image/png", &picture(40, 40, 100)).await;
    let file = server.get(&format!("{clear}?size=20")).await;
    assert_eq!(file.header("content-type"), "image/png");
    server.stop().await;
}

#[tokio::test]
async fn content_without_a_thumbnail_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "").await;
    let png = picture(300, 100, 255);
    let path = server.stored("", "portrait", "image/png", &png).await;
    for (query, why) in [
        ("size=0", "size must be a whole number from 1 to 2048, not \"0\""),
        ("size=99999", "size must be a whole number from 1 to 2048, not \"99999\""),
        ("size=big", "size must be a whole number from 1 to 2048, not \"big\""),
        ("size=1&size=2", "duplicate parameter size"),
        ("width=1", "unknown parameter \"width\"; this URI may have size"),
        ("size='", "the URI contains '\\'', which is not allowed there"),
    ] {
        let want = (400, format!("invalid_params: {why}"));
        assert_eq!(server.get(&format!("{path}?{query}")).await.refusal(), want);
    }
    assert_eq!(server.get(&format!("{path}?size=")).await.bytes, png);
    let mut bomb = png.clone();
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    // The checksum of the changed head.
    bomb[29..33].copy_from_slice(&0x80d2_7542_u32.to_be_bytes());
    for (name, media_type, bytes, status, why) in [
        (
            "text",
            "text/plain",
            &b"text"[..],
            400,
            "the content is not a PNG, JPEG, GIF or WebP picture",
        ),
        ("page", "image/png", b"<html><script>alert(1)</script>", 400, "the content is not a PNG"),
        ("half", "image/png", &png[..png.len() / 2], 400, "the picture cannot be decoded ("),
        (
            "bomb",
            "image/png",
            &bomb,
            413,
            "the picture has 60000 × 60000 pixels, more than 128 MiB",
        ),
    ] {
        let path = server.stored("", name, media_type, bytes).await;
        let (found, message) = server.get(&format!("{path}?size=16")).await.refusal();
        assert!(found == status && message.contains(why), "{name}: {found} {message}");
        // Without a size it is sent as it is.
        assert_eq!(server.get(&path).await.bytes, bytes, "{name}");
    }
    server.stop().await;
}

#[tokio::test]
async fn media_is_found_only_by_callers_who_may_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let users = users_toml(folder.path(), &["alice", "bob"]);
    let server = server(folder.path(), &users).await;
    let [alice, bob] = ["alice", "bob"].map(|name| format!("Bearer {}", token_of(name)));
    let path = server.stored(&alice, "mine.png", "image/png", &picture(30, 10, 255)).await;
    let empty = server.stored(&alice, "empty", "", b"").await;
    let of_alice = [("Authorization", &*alice)];
    assert_eq!(server.file("GET", &path, &of_alice).await.status, 200);
    let etag = server.file("GET", &path, &of_alice).await.header("etag").to_owned();

    let want = (404, "not_found: no media that you may read has this path".to_owned());
    let of_bob = [("Authorization", &*bob), ("If-None-Match", &*etag)];
    for size in ["", "?size=16"] {
        let file = server.file("GET", &format!("{path}{size}"), &of_bob).await;
        assert_eq!(file.refusal(), want, "{size}");
    }
    let other = path.replace("/default/", "/other/");
    let several = path.replace("/default/", "/default/other/");
    for missing in [
        &*other,
        &several,
        &empty,
        "/media/default/data.data/no-such-thing",
        "/media/default/no.such.type/x",
        "/media/default/vector/search",
        "/media/data.data/x",
        "/media/x",
        "/media/default/data.data/..%2f..%2fetc%2fpasswd",
        "/media/default/data.data/%ff",
    ] {
        assert_eq!(server.file("GET", missing, &of_alice).await.refusal(), want, "{missing}");
    }
    let refused = server.get(&path).await;
    assert_eq!(refused.refusal(), (401, "unauthorized: a token is needed".to_owned()));
    assert!(refused.has("www-authenticate"));
    let wrong = server.file("POST", &path, &of_alice).await;
    assert_eq!(wrong.refusal().0, 405);
    server.stop().await;
}

#[tokio::test]
async fn pages_of_other_sites_show_no_media() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "").await;
    let path = server.stored("", "mine.png", "image/png", &picture(30, 10, 255)).await;
    for (name, value) in [
        ("Origin", "https://far.example"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Host", "far.example"),
    ] {
        let file = server.file("GET", &path, &[(name, value)]).await;
        assert!([400, 403].contains(&file.status), "{name}: {}", file.head);
    }
    let own = server.file("GET", &path, &[("Sec-Fetch-Site", "same-origin")]).await;
    assert_eq!(own.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_server_without_a_database_has_no_media() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "").await;
    assert_eq!(server.get("/media/default/data.data/x").await.refusal().0, 404);
    assert!(!folder.path().join("knowledge.db").exists());
    server.stop().await;
}
