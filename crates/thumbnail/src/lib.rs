#![doc = include_str!("../README.md")]

use std::{fmt, io::Cursor, num::NonZeroU32};

use image::{
    DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder as _, ImageError, ImageFormat,
    ImageReader, Limits,
    codecs::{
        jpeg::JpegEncoder,
        png::{CompressionType, FilterType, PngEncoder},
    },
    metadata::Orientation,
};

/// The largest width and height of a thumbnail, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThumbnailSize(NonZeroU32);

impl ThumbnailSize {
    /// The largest size.
    pub const MAX: u32 = 2048;

    /// Parses a size: a whole number from 1 to [`Self::MAX`].
    ///
    /// # Errors
    ///
    /// Returns an error if the text is another one.
    pub fn parse(text: &str) -> Result<Self, ThumbnailError> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_number && *number <= Self::MAX);
        let size = number.and_then(NonZeroU32::new);
        size.map(Self).ok_or_else(|| ThumbnailError::Size(shortened(text)))
    }

    /// Returns the number of pixels.
    #[must_use]
    pub fn pixels(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for ThumbnailSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A small version of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thumbnail {
    /// `image/png` if the picture is transparent somewhere, else `image/jpeg`.
    pub media_type: &'static str,
    /// The encoded picture, without the metadata of the original.
    pub bytes: Vec<u8>,
}

/// Why a picture has no thumbnail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ThumbnailError {
    /// The size is not a number within the limits.
    #[error("size must be a whole number from 1 to {max}, not {0:?}", max = ThumbnailSize::MAX)]
    Size(String),
    /// The content is not a picture in a supported format.
    #[error(
        "the content is not a PNG, JPEG, GIF or WebP picture; leave size out to get it as it is"
    )]
    NotAPicture,
    /// The picture has too many pixels.
    #[error(
        "the picture has {width} × {height} pixels, more than {max} MiB when it is decoded; leave size out to get it as it is",
        max = MAX_DECODED_BYTES >> 20
    )]
    TooLarge {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// The picture is damaged, or uses something that the decoder does not support.
    #[error("the picture cannot be decoded ({0}); leave size out to get it as it is")]
    Undecodable(String),
}

/// The largest decoded picture: 44 million pixels of a photograph, 33 million with transparency.
/// Phones and cameras store 12 to 24 million.
const MAX_DECODED_BYTES: u64 = 128 << 20;

/// Memory of a decoder, as a multiple of the decoded picture: a progressive JPEG has its
/// coefficients in memory beside the pixels, at two bytes each.
const MEMORY_FACTOR: u64 = 3;

/// Memory for all decoders of the process, in MiB.
pub const MEMORY_MIB: u32 = ((MAX_DECODED_BYTES * MEMORY_FACTOR) >> 20) as u32;

/// Quality of JPEG thumbnails, of 100.
const JPEG_QUALITY: u8 = 82;

/// Returns how much memory decoding a picture takes, in MiB. Reads only the head of the picture.
///
/// # Errors
///
/// Returns an error if the content is not a picture, or if it is too large.
pub fn memory_mib(picture: &[u8]) -> Result<u32, ThumbnailError> {
    let bytes = decoder(picture)?.total_bytes().saturating_mul(MEMORY_FACTOR);
    Ok(u32::try_from(bytes >> 20).unwrap_or(u32::MAX).saturating_add(1).min(MEMORY_MIB))
}

/// Returns a thumbnail of a picture that fits into a square of this size. The aspect ratio is kept,
/// and a small picture is not enlarged. The orientation in the metadata of a photograph is applied;
/// of an animation, the first frame is shown. The format is found in the content; the declared
/// media type does not matter.
///
/// # Errors
///
/// Returns an error if the content is not a picture, is too large or cannot be decoded.
pub fn thumbnail(picture: &[u8], size: ThumbnailSize) -> Result<Thumbnail, ThumbnailError> {
    let mut decoder = decoder(picture)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let picture = DynamicImage::from_decoder(decoder).map_err(undecodable)?;
    let size = size.pixels();
    let is_larger = picture.width() > size || picture.height() > size;
    let mut small = if is_larger { picture.thumbnail(size, size) } else { picture };
    small.apply_orientation(orientation);
    encode(&small)
}

/// Returns the decoder of a picture within the limits.
fn decoder(picture: &[u8]) -> Result<impl ImageDecoder + use<'_>, ThumbnailError> {
    use ImageFormat::{Gif, Jpeg, Png, WebP};
    let format = image::guess_format(picture)
        .ok()
        .filter(|format| [Png, Jpeg, Gif, WebP].contains(format))
        .ok_or(ThumbnailError::NotAPicture)?;
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    let mut reader = ImageReader::with_format(Cursor::new(picture), format);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(undecodable)?;
    let (width, height) = decoder.dimensions();
    if decoder.total_bytes() > MAX_DECODED_BYTES {
        return Err(ThumbnailError::TooLarge { width, height });
    }
    if width == 0 || height == 0 {
        return Err(ThumbnailError::Undecodable("it has no pixels".to_owned()));
    }
    Ok(decoder)
}

fn encode(picture: &DynamicImage) -> Result<Thumbnail, ThumbnailError> {
    let width = picture.width();
    let height = picture.height();
    let mut bytes = Vec::new();
    let is_transparent = picture.color().has_alpha()
        && picture.to_rgba8().pixels().any(|pixel| pixel.0[3] != u8::MAX);
    if is_transparent {
        PngEncoder::new_with_quality(&mut bytes, CompressionType::Default, FilterType::Adaptive)
            .write_image(&picture.to_rgba8(), width, height, ExtendedColorType::Rgba8)
            .map_err(undecodable)?;
        return Ok(Thumbnail { media_type: "image/png", bytes });
    }
    JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY)
        .write_image(&picture.to_rgb8(), width, height, ExtendedColorType::Rgb8)
        .map_err(undecodable)?;
    Ok(Thumbnail { media_type: "image/jpeg", bytes })
}

/// Converts an error of the decoder. Its text may quote the picture.
fn undecodable(error: ImageError) -> ThumbnailError {
    let text = match error {
        ImageError::Limits(_) => "it needs too much memory".to_owned(),
        error => error.to_string(),
    };
    let plain: String = text.chars().filter(|character| !character.is_control()).collect();
    ThumbnailError::Undecodable(shortened(&plain))
}

/// Returns the beginning of a text, for errors.
fn shortened(text: &str) -> String {
    const MAX_BYTES: usize = 100;
    text[..text.floor_char_boundary(MAX_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use image::{
        GrayImage, Rgb, RgbImage, Rgba, RgbaImage,
        codecs::{gif::GifEncoder, webp::WebPEncoder},
    };
    use proptest::prelude::*;

    use super::*;

    fn size(text: &str) -> ThumbnailSize {
        ThumbnailSize::parse(text).unwrap()
    }

    /// A picture that is red on its left half and blue on its right.
    fn photo(width: u32, height: u32) -> RgbImage {
        const RED: Rgb<u8> = Rgb([250, 0, 0]);
        const BLUE: Rgb<u8> = Rgb([0, 0, 250]);
        RgbImage::from_fn(width, height, |x, _| if x < width / 2 { RED } else { BLUE })
    }

    fn encoded(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Vec::new();
        let picture: DynamicImage = picture.into();
        picture.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
        bytes
    }

    fn decoded(thumbnail: &Thumbnail) -> DynamicImage {
        let format = ImageFormat::from_mime_type(thumbnail.media_type).unwrap();
        image::load_from_memory_with_format(&thumbnail.bytes, format).unwrap()
    }

    #[track_caller]
    fn check(picture: &[u8], wanted: &str, media_type: &str, width: u32, height: u32) {
        let thumbnail = thumbnail(picture, size(wanted)).unwrap();
        let shown = decoded(&thumbnail);
        let found = (thumbnail.media_type, shown.width(), shown.height());
        assert_eq!(found, (media_type, width, height));
    }

    #[track_caller]
    fn refused(picture: &[u8], want: &str) {
        let error = thumbnail(picture, size("16")).unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
        // The head alone is refused for the same reason, unless the damage comes later.
        if let Err(of_head) = memory_mib(picture) {
            assert_eq!(of_head.to_string(), error);
        }
    }

    #[test]
    fn a_size_is_a_number_of_pixels() {
        for valid in ["1", "256", "0256", "2048"] {
            assert_eq!(size(valid).pixels(), valid.parse::<u32>().unwrap());
        }
        for bad in ["0", "2049", "99999999999999999999", "-1", "+1", "1.5", "big", "", "0x10", "1 "]
        {
            let error = ThumbnailSize::parse(bad).unwrap_err().to_string();
            let want = format!("size must be a whole number from 1 to 2048, not {bad:?}");
            assert_eq!(error, want);
        }
        assert!(ThumbnailSize::parse(&"9".repeat(10_000)).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn a_picture_of_every_format_keeps_its_aspect_ratio() {
        use ImageFormat::{Gif, Jpeg, Png, WebP};
        for format in [Png, Jpeg, Gif, WebP] {
            check(&encoded(photo(200, 100), format), "50", "image/jpeg", 50, 25);
        }
        check(&encoded(photo(100, 200), Png), "50", "image/jpeg", 25, 50);
        check(&encoded(photo(3_000, 1), Png), "50", "image/jpeg", 50, 1);
        let deep = DynamicImage::from(photo(200, 100)).into_rgba16();
        check(&encoded(deep, Png), "50", "image/jpeg", 50, 25);
        check(&encoded(GrayImage::new(200, 100), Png), "50", "image/jpeg", 50, 25);
    }

    #[test]
    fn a_small_picture_is_not_enlarged() {
        check(&encoded(photo(20, 10), ImageFormat::Png), "2048", "image/jpeg", 20, 10);
        check(&encoded(photo(20, 10), ImageFormat::Png), "20", "image/jpeg", 20, 10);
        check(&encoded(photo(1, 1), ImageFormat::Png), "1", "image/jpeg", 1, 1);
    }

    #[test]
    fn a_transparent_picture_stays_transparent() {
        let clear =
            RgbaImage::from_fn(64, 64, |x, _| Rgba([0, 200, 0, if x < 32 { 0 } else { 255 }]));
        let picture = encoded(clear, ImageFormat::Png);
        check(&picture, "16", "image/png", 16, 16);
        let shown = decoded(&thumbnail(&picture, size("16")).unwrap()).to_rgba8();
        assert_eq!((shown.get_pixel(1, 8).0[3], shown.get_pixel(14, 8).0[3]), (0, 255));
        // An alpha channel that hides nothing costs no PNG.
        let opaque = RgbaImage::from_pixel(64, 64, Rgba([1, 2, 3, 255]));
        check(&encoded(opaque, ImageFormat::Png), "16", "image/jpeg", 16, 16);
    }

    #[test]
    fn colours_stay_in_their_places() {
        let picture = encoded(photo(200, 100), ImageFormat::Png);
        let shown = decoded(&thumbnail(&picture, size("40")).unwrap()).to_rgb8();
        let [left, right] = [5, 35].map(|x| shown.get_pixel(x, 10).0);
        assert!(left[0] > 200 && left[2] < 50, "{left:?}");
        assert!(right[2] > 200 && right[0] < 50, "{right:?}");
    }

    #[test]
    fn the_orientation_of_a_photograph_is_applied() {
        // Exif with one entry, the orientation: turn by 90° clockwise to show it.
        let mut exif = b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0".to_vec();
        exif.extend([0; 4]);
        let mut bytes = Vec::new();
        let mut encoder = JpegEncoder::new(&mut bytes);
        encoder.set_exif_metadata(exif).unwrap();
        encoder.write_image(&photo(200, 100), 200, 100, ExtendedColorType::Rgb8).unwrap();
        check(&bytes, "50", "image/jpeg", 25, 50);
        let thumbnail = thumbnail(&bytes, size("50")).unwrap();
        let shown = decoded(&thumbnail).to_rgb8();
        let [top, bottom] = [5, 45].map(|y| shown.get_pixel(12, y).0);
        assert!(top[0] > 200 && bottom[2] > 200, "{top:?} {bottom:?}");
        // The metadata, which may say where the photograph was taken, is not passed on.
        assert!(!thumbnail.bytes.windows(4).any(|bytes| bytes == b"Exif"));
    }

    #[test]
    fn an_animation_shows_its_first_frame() {
        let mut bytes = Vec::new();
        let mut encoder = GifEncoder::new(&mut bytes);
        for colour in [Rgba([250, 0, 0, 255]), Rgba([0, 0, 250, 255])] {
            let frame = RgbaImage::from_pixel(64, 64, colour);
            encoder.encode_frame(image::Frame::new(frame)).unwrap();
        }
        drop(encoder);
        let shown = decoded(&thumbnail(&bytes, size("16")).unwrap()).to_rgb8();
        assert!(shown.get_pixel(8, 8).0[0] > 200);
    }

    #[test]
    fn other_content_is_no_picture() {
        const WANT: &str = "the content is not a PNG, JPEG, GIF or WebP picture";
        for content in [
            "",
            "text",
            "<svg xmlns='http://www.w3.org/2000/svg'/>",
            "<html>",
            "%PDF-1.7",
            "BM\0\0\0\0\0\0\0\0",
            "II*\0",
        ] {
            refused(content.as_bytes(), WANT);
        }
    }

    #[test]
    fn a_damaged_picture_is_an_error() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let whole = encoded(photo(64, 64), format);
            refused(&whole[..16], "the picture cannot be decoded (");
        }
        let png = encoded(photo(64, 64), ImageFormat::Png);
        refused(&png[..png.len() / 2], "the picture cannot be decoded (");
        let mut damaged = png.clone();
        let at = png.len() / 2;
        damaged[at] ^= 0xff;
        refused(&damaged, "the picture cannot be decoded (");
    }

    /// Returns the CRC of a chunk of a PNG.
    fn crc(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            }
        }
        !crc
    }

    /// Returns a PNG whose head says that it has this size.
    fn pretended_png(width: u32, height: u32) -> Vec<u8> {
        let mut png = encoded(photo(4, 4), ImageFormat::Png);
        png[16..20].copy_from_slice(&width.to_be_bytes());
        png[20..24].copy_from_slice(&height.to_be_bytes());
        let sum = crc(&png[12..29]).to_be_bytes();
        png[29..33].copy_from_slice(&sum);
        png
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_decoded() {
        const WANT: &str = "the picture has 60000 × 60000 pixels, more than 128 MiB";
        refused(&pretended_png(60_000, 60_000), WANT);
        let mut jpeg = encoded(photo(8, 8), ImageFormat::Jpeg);
        let at = jpeg.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
        jpeg[at + 5..at + 9].copy_from_slice(&[0xea, 0x60, 0xea, 0x60]);
        refused(&jpeg, WANT);
        let mut gif = encoded(photo(8, 8), ImageFormat::Gif);
        gif[6..10].copy_from_slice(&[0x60, 0xea, 0x60, 0xea]);
        refused(&gif, WANT);
        refused(&pretended_png(u32::MAX >> 1, u32::MAX >> 1), "the picture ");
        // Just within the limit, it is decoded and found to be short.
        refused(&pretended_png(1_000, 1_000), "the picture cannot be decoded (");
    }

    #[test]
    fn memory_is_reserved_by_the_number_of_pixels() {
        // The largest picture takes all of it.
        for (width, height, want) in [(4, 4, 1), (4_000, 3_000, 103), (6_688, 6_688, MEMORY_MIB)] {
            assert_eq!(memory_mib(&pretended_png(width, height)).unwrap(), want);
        }
    }

    #[test]
    fn only_the_picture_is_passed_on() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
            let mut polyglot = encoded(photo(64, 64), format);
            polyglot.extend(b"<script>alert(1)</script>PK\x03\x04");
            let thumbnail = thumbnail(&polyglot, size("16")).unwrap();
            assert!(!thumbnail.bytes.windows(7).any(|bytes| bytes == b"<script"), "{format:?}");
        }
    }

    fn small_pictures() -> Vec<Vec<u8>> {
        let mut lossless = Vec::new();
        let clear = RgbaImage::from_pixel(9, 7, Rgba([9, 9, 9, 9]));
        WebPEncoder::new_lossless(&mut lossless)
            .encode(&clear, 9, 7, ExtendedColorType::Rgba8)
            .unwrap();
        let formats = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif];
        let mut all: Vec<_> = formats.map(|format| encoded(photo(9, 7), format)).into();
        all.push(lossless);
        all
    }

    proptest! {
        #[test]
        fn damage_never_panics_and_a_thumbnail_always_fits(
            which in 0..4_usize,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<prop::sample::Index>(),
            is_cut: bool,
        ) {
            let mut picture = small_pictures().swap_remove(which);
            for (at, byte) in changes {
                let at = at.index(picture.len());
                picture[at] = byte;
            }
            if is_cut {
                picture.truncate(cut.index(picture.len()));
            }
            // A changed head may still say that it has millions of pixels.
            prop_assume!(memory_mib(&picture).is_ok_and(|mib| mib == 1));
            if let Ok(thumbnail) = thumbnail(&picture, size("5")) {
                let shown = decoded(&thumbnail);
                prop_assert!((1..=5).contains(&shown.width()) && (1..=5).contains(&shown.height()));
            }
        }
    }
}
