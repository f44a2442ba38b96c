//! Contents of records as bytes: whole, or as thumbnails of pictures.

use std::sync::{Arc, LazyLock};

use marquetry_context_blocks::Am7Uri;
use marquetry_rag::Record;
use marquetry_thumbnail::{
    MEMORY_MIB, Thumbnail, ThumbnailError, ThumbnailSize, memory_mib, thumbnail,
};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    access::Access,
    failure::{ErrorCode, Failure},
    parameters::parameters,
    work::worked,
};

/// The content of a record, or a thumbnail of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Differs for contents that differ, and for thumbnails of different sizes. ASCII letters,
    /// digits and hyphens.
    pub version: String,
    /// The media type of the bytes.
    pub media_type: String,
    /// The name of the record; for a thumbnail, with the size and the extension of its format.
    pub name: String,
    /// The bytes; [`None`] if the reader has this version already.
    pub bytes: Option<Vec<u8>>,
}

impl Access {
    /// Reads `am7://ORGANISATION/media/TYPE/ID`, the content of a record, or with `?size=N` a
    /// thumbnail that fits into N × N pixels. An SVG has no pixels and is returned as it is for
    /// every size. The bytes are left out if `has_version` says that the reader has them.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller may not read such a record, if it has no content, or if a
    /// thumbnail is wanted of something that is not a picture.
    pub async fn media(
        &self,
        uri: &str,
        has_version: impl Fn(&str) -> bool + Send + Sync,
    ) -> Result<Media, Failure> {
        let parsed = Am7Uri::parse(uri).map_err(|error| {
            let path = uri.split('?').next().unwrap_or_default();
            // A wrong query is told; a wrong path is the URI of no record.
            if Am7Uri::parse(path).is_ok() {
                Failure::invalid(error.to_string())
            } else {
                no_media()
            }
        })?;
        if !parsed.is_media() {
            return Err(no_media());
        }
        let size = wanted_size(&parsed)?;
        let mut record = self.knowledge.records.get(&self.caller, uri).await?;
        // The version must be that of the bytes. A record that changes while it is read is read
        // again.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let size = size.filter(|_| !is_svg(&record));
            let media = unread(&record, size);
            if has_version(&media.version) {
                return Ok(media);
            }
            let content = self.content(uri).await?;
            let now = self.knowledge.records.get(&self.caller, uri).await?;
            if (now.created, now.revision) != (record.created, record.revision) {
                record = now;
                continue;
            }
            let content = content.ok_or_else(no_media)?;
            let Some(size) = size else { return Ok(Media { bytes: Some(content), ..media }) };
            let Thumbnail { media_type, bytes } = self.thumbnail(content, size).await?;
            let extension = media_type.trim_start_matches("image/").replace("jpeg", "jpg");
            let name = format!("{}-{size}.{extension}", record.name);
            let media_type = media_type.to_owned();
            return Ok(Media { media_type, name, bytes: Some(bytes), ..media });
        }
        Err(Failure::new(ErrorCode::Busy, "the record changes again and again while it is read"))
    }

    /// Returns a thumbnail of a picture. Decoders share a budget of memory, in this process.
    pub(crate) async fn thumbnail(
        &self,
        picture: Vec<u8>,
        size: ThumbnailSize,
    ) -> Result<Thumbnail, Failure> {
        static MEMORY: LazyLock<Arc<Semaphore>> =
            LazyLock::new(|| Arc::new(Semaphore::new(MEMORY_MIB as usize)));
        const WHAT: &str = "making a thumbnail";
        let job = &self.knowledge.job;
        let picture = Arc::new(picture);
        let memory = {
            let picture = picture.clone();
            worked(job, WHAT, move |_| Ok(memory_mib(&picture)?)).await?
        };
        let reserve = MEMORY.clone().acquire_many_owned(memory);
        let Ok(Ok(reserved)) = timeout(job.time(), reserve).await else {
            let message = "the thumbnail was not begun: other pictures are being decoded";
            return Err(Failure::new(ErrorCode::Busy, message));
        };
        worked(job, WHAT, move |_| {
            // The decoder does not notice that its caller has gone. Its memory stays reserved until
            // it ends.
            let _reserved = reserved;
            Ok(thumbnail(&picture, size)?)
        })
        .await
    }
}

/// Returns the size of the thumbnail that a media URI names.
pub(crate) fn wanted_size(uri: &Am7Uri) -> Result<Option<ThumbnailSize>, Failure> {
    let parameters = parameters(uri, &["size"])?;
    let size = parameters.get("size").map(|size| ThumbnailSize::parse(size)).transpose();
    Ok(size?)
}

/// Returns whether a record's content is an SVG, by its media type.
pub(crate) fn is_svg(record: &Record) -> bool {
    record.media_essence().eq_ignore_ascii_case("image/svg+xml")
}

fn no_media() -> Failure {
    Failure::new(ErrorCode::NotFound, "no media that you may read has this URI")
}

/// Returns the media of a record, without its bytes.
fn unread(record: &Record, size: Option<ThumbnailSize>) -> Media {
    // A removed record may return with another content under the same revision, but not at the same
    // time.
    let mut version = format!("{:x}-{:x}", record.created, record.revision);
    if let Some(size) = size {
        version.push_str(&format!("-{size}"));
    }
    let media_type =
        record.media_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
    Media { version, media_type, name: record.name.clone(), bytes: None }
}

impl From<ThumbnailError> for Failure {
    fn from(error: ThumbnailError) -> Self {
        let code = match error {
            ThumbnailError::TooLarge { .. } => ErrorCode::LimitExceeded,
            _ => ErrorCode::InvalidParams,
        };
        Self::new(code, error.to_string())
    }
}
