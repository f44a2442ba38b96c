//! Generated content: the same kind, size and seed always give the same bytes.

use std::{fmt, io::Write as _};

use flate2::{Compression, Crc, write::ZlibEncoder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::ByteSize;

/// Largest content that a scenario may generate, in bytes.
pub(crate) const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Content to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Generate {
    /// Kind of content.
    pub(crate) kind: Kind,
    /// Exact length; by default the shortest content of its kind.
    pub(crate) bytes: Option<ByteSize>,
    /// Makes different contents of the same kind and length.
    #[serde(default)]
    pub(crate) seed: u64,
}

/// The kinds of content that can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Lines of English words, in no format but plain text.
    Text,
    /// A JSON array of objects.
    Json,
    /// A comma-separated table with a header.
    Csv,
    /// A PlantUML sequence diagram.
    Plantuml,
    /// Random bytes.
    Bytes,
    /// A PNG picture.
    Png,
    /// A WAV sound.
    Wav,
    /// An MP3 sound: silent frames.
    Mp3,
}

/// Makes one part of some content from its index and random numbers.
type Unit = fn(u64, &mut Noise) -> Vec<u8>;

/// Why content cannot be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GenerateError {
    #[error("{kind} content needs at least {min} bytes, not {bytes}")]
    TooShort { kind: Kind, bytes: u64, min: usize },
    #[error("{bytes} bytes are more than the limit of {MAX_BYTES}")]
    TooLong { bytes: u64 },
}

impl Generate {
    /// Generates the content.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, GenerateError> {
        let (head, unit, tail): (Vec<u8>, Unit, &[u8]) = match self.kind {
            Kind::Text => (Vec::new(), |_, noise| words(noise), b""),
            Kind::Json => (b"[".to_vec(), json_row, b"]"),
            Kind::Csv => (b"id,name,amount\n".to_vec(), csv_row, b"\n"),
            Kind::Plantuml => (b"@startuml\n".to_vec(), arrow, b"@enduml"),
            Kind::Bytes => (Vec::new(), |_, noise| noise.next().to_le_bytes().to_vec(), b""),
            Kind::Png => return self.png(),
            Kind::Wav => return self.wav(),
            Kind::Mp3 => (Vec::new(), |_, _| silent_frame(), b""),
        };
        let mut noise = Noise::new(self.seed);
        let first = unit(0, &mut noise);
        let min = head.len() + first.len() + tail.len();
        let length = self.length(if self.kind.may_be_cut() { 0 } else { min }, min)?;

        let mut content = head;
        let room = length - tail.len();
        let mut part = first;
        let mut index = 0;
        while content.len() + part.len() <= room {
            content.append(&mut part);
            index += 1;
            part = unit(index, &mut noise);
        }
        match self.kind {
            Kind::Text | Kind::Bytes | Kind::Mp3 => {
                part.truncate(room - content.len());
                content.append(&mut part);
            }
            // JSON is padded with white space, CSV in its last field, PlantUML in its last label.
            Kind::Json => content.resize(room, b' '),
            Kind::Csv => content.resize(room, b'0'),
            Kind::Plantuml => pad_diagram(&mut content, room),
            Kind::Png | Kind::Wav => {}
        }
        content.extend_from_slice(tail);
        Ok(content)
    }

    fn length(&self, min: usize, default: usize) -> Result<usize, GenerateError> {
        let Some(ByteSize(bytes)) = self.bytes else { return Ok(default) };
        if bytes > MAX_BYTES {
            return Err(GenerateError::TooLong { bytes });
        }
        let length = usize::try_from(bytes).map_err(|_| GenerateError::TooLong { bytes })?;
        if length < min {
            return Err(GenerateError::TooShort { kind: self.kind, bytes, min });
        }
        Ok(length)
    }

    /// Returns one grey pixel; a `tEXt` chunk pads the file to its length.
    fn png(&self) -> Result<Vec<u8>, GenerateError> {
        let grey = Noise::new(self.seed).next().to_le_bytes()[0];
        let mut start = b"\x89PNG\r\n\x1a\n".to_vec();
        start.extend(png_chunk(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]));
        let mut end = png_chunk(b"IDAT", &zlib(&[0, grey]));
        end.extend(png_chunk(b"IEND", &[]));

        let plain = start.len() + end.len();
        let length = self.length(plain, plain)?;
        if length > plain {
            let comment = png_chunk(b"tEXt", b"Comment\0");
            let Some(padding) = length.checked_sub(plain + comment.len()) else {
                let min = plain + comment.len();
                return Err(GenerateError::TooShort { kind: self.kind, bytes: length as u64, min });
            };
            let mut data = b"Comment\0".to_vec();
            data.resize(data.len() + padding, b'x');
            start.extend(png_chunk(b"tEXt", &data));
        }
        start.extend(end);
        Ok(start)
    }

    /// Returns eight-bit mono noise at 8 kHz after a canonical header of 44 bytes.
    fn wav(&self) -> Result<Vec<u8>, GenerateError> {
        const HEADER: usize = 44;
        let length = self.length(HEADER, HEADER + 2)?;
        let samples = (length - HEADER) as u32;
        let mut content = Vec::with_capacity(length);
        content.extend_from_slice(b"RIFF");
        content.extend_from_slice(&(samples + HEADER as u32 - 8).to_le_bytes());
        content.extend_from_slice(b"WAVEfmt ");
        content.extend_from_slice(&16_u32.to_le_bytes());
        content.extend_from_slice(&1_u16.to_le_bytes());
        content.extend_from_slice(&1_u16.to_le_bytes());
        content.extend_from_slice(&8000_u32.to_le_bytes());
        content.extend_from_slice(&8000_u32.to_le_bytes());
        content.extend_from_slice(&1_u16.to_le_bytes());
        content.extend_from_slice(&8_u16.to_le_bytes());
        content.extend_from_slice(b"data");
        content.extend_from_slice(&samples.to_le_bytes());
        let mut noise = Noise::new(self.seed);
        content.extend((0..samples).map(|_| noise.next().to_le_bytes()[0]));
        Ok(content)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl Kind {
    /// Returns whether each prefix of such content is of the same kind.
    fn may_be_cut(self) -> bool {
        matches!(self, Self::Text | Self::Bytes | Self::Mp3)
    }
}

fn words(noise: &mut Noise) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "alder", "beech", "cedar", "ebony", "grain", "holly", "inlay", "larch", "maple", "oaken",
        "plane", "rosewood", "spruce", "teak", "veneer", "walnut",
    ];
    let mut line = Vec::with_capacity(80);
    for _ in 0..10 {
        line.extend_from_slice(WORDS[(noise.next() % 16) as usize].as_bytes());
        line.push(b' ');
    }
    line.pop();
    line.push(b'\n');
    line
}

fn json_row(index: u64, noise: &mut Noise) -> Vec<u8> {
    let comma = if index == 0 { "" } else { "," };
    format!(r#"{comma}{{"id":{index},"amount":{}}}"#, noise.next() % 100_000).into_bytes()
}

fn csv_row(index: u64, noise: &mut Noise) -> Vec<u8> {
    let line = if index == 0 { "" } else { "\n" };
    format!("{line}{index},item {index},{}", noise.next() % 100_000).into_bytes()
}

fn arrow(index: u64, noise: &mut Noise) -> Vec<u8> {
    format!("P{} -> P{} : step {index}\n", noise.next() % 9, noise.next() % 9).into_bytes()
}

/// Pads a diagram to `room` bytes by a longer label of its last line.
fn pad_diagram(content: &mut Vec<u8>, room: usize) {
    content.pop();
    content.resize(room - 1, b'x');
    content.push(b'\n');
}

/// Returns a frame of MPEG-1 layer III, 128 kbit/s, 44.1 kHz, mono: 417 bytes that decode to
/// silence.
fn silent_frame() -> Vec<u8> {
    let mut frame = vec![0xff, 0xfb, 0x90, 0xc4];
    frame.resize(417, 0);
    frame
}

fn png_chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    let mut chunk = (data.len() as u32).to_be_bytes().to_vec();
    chunk.extend_from_slice(kind);
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(&crc.sum().to_be_bytes());
    chunk
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("writing to memory does not fail");
    encoder.finish().expect("writing to memory does not fail")
}

/// SplitMix64: small, with the same numbers on every machine.
struct Noise(u64);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Kind; 8] = [
        Kind::Text,
        Kind::Json,
        Kind::Csv,
        Kind::Plantuml,
        Kind::Bytes,
        Kind::Png,
        Kind::Wav,
        Kind::Mp3,
    ];

    fn of(kind: Kind, bytes: u64) -> Generate {
        Generate { kind, bytes: Some(ByteSize(bytes)), seed: 0 }
    }

    fn text(kind: Kind, bytes: u64) -> String {
        String::from_utf8(of(kind, bytes).bytes().unwrap()).unwrap()
    }

    #[test]
    fn every_kind_has_exactly_the_asked_length() {
        for kind in ALL {
            for bytes in [150, 151, 997, 4096, 51_200] {
                assert_eq!(of(kind, bytes).bytes().unwrap().len() as u64, bytes, "{kind:?}");
            }
        }
    }

    #[test]
    fn every_kind_has_a_shortest_content() {
        for kind in ALL {
            let content = Generate { kind, bytes: None, seed: 0 }.bytes().unwrap();
            assert!(!content.is_empty(), "{kind:?}");
        }
    }

    #[test]
    fn only_the_seed_changes_the_content() {
        for kind in [Kind::Text, Kind::Json, Kind::Csv, Kind::Plantuml, Kind::Bytes, Kind::Wav] {
            let one = of(kind, 500).bytes().unwrap();
            let other = Generate { seed: 1, ..of(kind, 500) }.bytes().unwrap();
            assert_eq!(one, of(kind, 500).bytes().unwrap(), "{kind:?}");
            assert_ne!(one, other, "{kind:?}");
        }
    }

    #[test]
    fn json_and_csv_stay_well_formed() {
        for bytes in 60..140 {
            let json = text(Kind::Json, bytes);
            let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
            assert!(!rows.is_empty());
            let csv = text(Kind::Csv, bytes);
            assert!(csv.lines().all(|line| line.matches(',').count() == 2), "{csv}");
        }
    }

    #[test]
    fn a_diagram_is_framed() {
        let diagram = text(Kind::Plantuml, 51_200);
        assert!(diagram.starts_with("@startuml\nP") && diagram.ends_with("x\n@enduml"));
    }

    #[test]
    fn too_short_is_an_error_that_says_how_long() {
        let error = of(Kind::Wav, 43).bytes().unwrap_err();
        assert_eq!(error.to_string(), "wav content needs at least 44 bytes, not 43");
        assert!(of(Kind::Json, 2).bytes().is_err());
        assert!(of(Kind::Png, 70).bytes().is_err());
    }

    #[test]
    fn too_long_is_an_error() {
        assert!(matches!(
            of(Kind::Bytes, MAX_BYTES + 1).bytes(),
            Err(GenerateError::TooLong { .. })
        ));
    }
}
