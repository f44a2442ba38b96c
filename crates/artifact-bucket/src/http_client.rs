//! The HTTP client of a bucket: `object_store` sends its requests through ours, so that the
//! program has one HTTP client and one TLS.

use std::{error::Error as _, time::Duration};

use async_trait::async_trait;
use http_body_util::BodyExt as _;
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
        HttpResponseBody, HttpService,
    },
};
use reqwest::{Body, Client, Request, Url};

/// Time from the beginning of a request to the headers of its answer. A part of an upload has 8
/// MiB, so that 140 KB/s are enough.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// Connects with one client for the address of an endpoint.
#[derive(Debug)]
pub(crate) struct ReqwestConnector(pub(crate) Client);

impl HttpConnector for ReqwestConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(ReqwestService(self.0.clone())))
    }
}

#[derive(Debug)]
struct ReqwestService(Client);

#[async_trait]
impl HttpService for ReqwestService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string())
            .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = Some(Body::wrap(body));
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.0.execute(request)).await;
        let response = answer
            .map_err(|error| HttpError::new(HttpErrorKind::Timeout, error))?
            .map_err(failure)?;
        let (parts, body) = http::Response::<Body>::from(response).into_parts();
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body.map_err(failure))))
    }
}

/// Converts an error. By its kind, `object_store` decides whether to send the request again.
fn failure(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_builder() {
        HttpErrorKind::Unknown
    } else {
        // The connection broke: the request may have arrived.
        HttpErrorKind::Interrupted
    };
    // The outermost error is only "error sending request".
    let error = error.without_url();
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        reason = error.to_string();
        source = error.source();
    }
    HttpError::new(kind, std::io::Error::other(reason))
}
