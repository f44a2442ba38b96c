//! Whole, damaged and cut images of each type, made by Pillow 12.

use base64::{Engine, engine::general_purpose::STANDARD};
use marquetry_image_types::{ImageError, examine};
use proptest::prelude::*;

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const JPEG: &str = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI////////////////////////////////////////////////////2wBDAVVaWnhpeOuCguv/////////////////////////////////////////////////////////////////////////wAARCAACAAMDASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwCKiiioOg//2Q==";
const GIF: &str = "R0lGODdhAwACAIEAAMgeHgAAAAAAAAAAACwAAAAAAwACAAAIBgABCBwYEAA7";
const WEBP: &str =
    "UklGRjIAAABXRUJQVlA4ICYAAABwAQCdASoDAAIAB0CWJaACdAFAAAD+5AFjCaSdH8zfhR8nUAAAAA==";
const WEBP_LOSSLESS: &str = "UklGRh4AAABXRUJQVlA4TBEAAAAvAkAAAAdQjyLXo/+BiOh/AAA=";
const WEBP_EXTENDED: &str = "UklGRlgAAABXRUJQVlA4WAoAAAAYAAAAAgAAAQAAQUxQSAcAAAAAZGRkZGRkAFZQOCAYAAAAMAEAnQEqAwACAAFAJiWkAANwAP79IFAARVhJRgoAAABNTQAqAAAACAAA";

fn bytes(image: &str) -> Vec<u8> {
    STANDARD.decode(image).unwrap()
}

#[test]
fn types_and_sizes() {
    for (image, mime_type, size) in [
        (PNG, "image/png", (1, 1)),
        (JPEG, "image/jpeg", (3, 2)),
        (GIF, "image/gif", (3, 2)),
        (WEBP, "image/webp", (3, 2)),
        (WEBP_LOSSLESS, "image/webp", (3, 2)),
        (WEBP_EXTENDED, "image/webp", (3, 2)),
    ] {
        let mut image = bytes(image);
        let found = examine(&image).unwrap();
        assert_eq!((found.mime_type, (found.width, found.height)), (mime_type, size));
        // A file that is something else besides is still an image.
        image.extend(b"PK\x03\x04<script>");
        assert_eq!(examine(&image), Ok(found));
    }
}

/// Each beginning of an image is damaged or cut, up to the first byte from which a decoder shows
/// something.
#[test]
fn beginnings_are_not_images() {
    for (image, mime_type, needed) in [
        (PNG, "image/png", bytes(PNG).len() - 4),
        (JPEG, "image/jpeg", bytes(JPEG).len() - 20),
        (GIF, "image/gif", bytes(GIF).len() - 1),
        (WEBP, "image/webp", bytes(WEBP).len()),
        (WEBP_LOSSLESS, "image/webp", bytes(WEBP_LOSSLESS).len()),
        (WEBP_EXTENDED, "image/webp", bytes(WEBP_EXTENDED).len()),
    ] {
        let image = bytes(image);
        for end in 0..image.len() {
            let found = examine(&image[..end]);
            if end < 3 {
                assert_eq!(found, Err(ImageError::Unknown));
            } else if end >= 12 && end + 20 < needed {
                assert_eq!(found, Err(ImageError::EndsEarly(mime_type)), "{end}");
            } else if end < needed {
                assert!(
                    matches!(found, Err(ImageError::EndsEarly(_) | ImageError::Unknown))
                        || end + 20 >= needed,
                    "{mime_type} {end}: {found:?}"
                );
            }
        }
    }
}

#[test]
fn texts_with_the_first_bytes_of_an_image_are_not_images() {
    for text in [
        &b"GIF89a/*<svg onload=alert(1)>*/=1;"[..],
        b"GIF87a",
        b"\x89PNG\r\n\x1a\n<html><body>not an image at all</body></html>",
        b"\xff\xd8\xff<html></html>",
        b"\xff\xd8\xff\xd9",
        b"RIFF\x04\0\0\0WEBP",
        b"RIFF\x10\0\0\0WEBPVP9 aaaaaaaaaaaaaaaaaaaaaaaaaa",
        b"RIFF\x24\0\0\0WAVEfmt ",
        b"",
        b"<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>",
        b"BM\x4e\0\0\0",
    ] {
        assert!(examine(text).is_err(), "{}", text.escape_ascii());
    }
    let mut empty = bytes(PNG);
    empty[16..20].fill(0);
    assert_eq!(examine(&empty), Err(ImageError::Damaged("image/png")));
    let mut large = bytes(PNG);
    large[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    assert_eq!(examine(&large).unwrap().pixels(), 900_000_000);
}

proptest! {
    #[test]
    fn never_panics(image in 0..6_usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), end: prop::sample::Index) {
        let mut image = bytes([PNG, JPEG, GIF, WEBP, WEBP_LOSSLESS, WEBP_EXTENDED][image]);
        for (at, byte) in changes {
            let at = at.index(image.len());
            image[at] = byte;
        }
        let end = end.index(image.len() + 1);
        if let Ok(found) = examine(&image[..end]) {
            prop_assert!(found.width > 0 && found.height > 0);
        }
    }
}
