//! Connects to a bucket, with credentials from the environment.

use std::{str::FromStr, sync::Arc, time::Duration};

use marquetry_endpoint::{ClientError, http_client, is_loopback};
use object_store::{
    BackoffConfig, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder,
};
use reqwest::Url;

use crate::{
    address::{BucketAddress, Service},
    http_client::ReqwestConnector,
    problem::first_line,
};

/// The region of S3 servers that have none.
const ANY_REGION: &str = "us-east-1";

/// Where a bucket is, and how it is reached.
#[derive(Clone, Debug)]
pub struct BucketSettings {
    /// The bucket.
    pub address: BucketAddress,
    /// URL of the server; without it, that of Amazon, Google or Microsoft.
    pub endpoint: Option<String>,
    /// The region of an S3 bucket; without it, that of the environment, or else us-east-1.
    pub region: Option<String>,
}

/// Error of a connection that could not be set up. Nothing was sent yet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint is not an HTTP URL.
    #[error("endpoint {0:?} is not a URL with http: or https: and without a user")]
    Endpoint(String),
    /// Tokens would travel over plain HTTP to another machine.
    #[error("endpoint {0:?} has http: and is not on this machine; the service needs https:")]
    Plain(String),
    /// The HTTP client cannot be created.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A setting or a variable is missing or not valid.
    #[error("{0}")]
    Settings(String),
}

/// Returns a client of the bucket. It takes credentials from the variables that begin with `AWS_`,
/// `GOOGLE_` or `AZURE_` and that `object_store` knows. Without credentials, it asks the machine
/// for its role when it sends the first request.
///
/// # Errors
/// Returns an error if the endpoint is not an HTTP URL, or a setting or variable is missing or not
/// valid.
pub fn connect(
    settings: &BucketSettings,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Arc<dyn ObjectStore>, ConnectError> {
    let variables = variables.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
    let variables: Vec<_> = variables.filter(|(_, value)| !value.is_empty()).collect();
    let bucket = settings.address.bucket();
    let store: object_store::Result<Arc<dyn ObjectStore>> = match settings.address.service() {
        Service::S3 => {
            let builder = AmazonS3Builder::new().with_region(ANY_REGION);
            let mut builder = configured(builder, &variables, "aws_", |builder, key, value| {
                AmazonS3Builder::with_config(builder, key, value)
            });
            if let Some(region) = &settings.region {
                builder = builder.with_region(region);
            }
            if let Some(endpoint) = &settings.endpoint {
                builder = builder.with_endpoint(endpoint);
            }
            let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
            let endpoint = endpoint
                .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint))
                .unwrap_or_else(|| "https://s3.amazonaws.com".to_owned());
            builder
                // A signature does not reveal the key, so plain HTTP is possible.
                .with_http_connector(client_for(&endpoint)?)
                .with_retry(retries())
                // These requests are the only ones that not every S3-compatible server has.
                .with_disable_tagging(true)
                .with_disable_bulk_delete(true)
                .with_bucket_name(bucket)
                .build()
                .map(|store| Arc::new(store) as _)
        }
        Service::Google => {
            let builder = GoogleCloudStorageBuilder::new();
            let mut builder = configured(builder, &variables, "google_", |builder, key, value| {
                GoogleCloudStorageBuilder::with_config(builder, key, value)
            });
            if let Some(endpoint) = &settings.endpoint {
                builder = builder.with_base_url(endpoint);
            }
            let endpoint = settings.endpoint.as_deref();
            builder
                .with_http_connector(secure_client_for(
                    endpoint.unwrap_or("https://storage.googleapis.com"),
                )?)
                .with_retry(retries())
                .with_bucket_name(bucket)
                .build()
                .map(|store| Arc::new(store) as _)
        }
        Service::Azure => {
            let builder = MicrosoftAzureBuilder::new();
            let mut builder = configured(builder, &variables, "azure_", |builder, key, value| {
                MicrosoftAzureBuilder::with_config(builder, key, value)
            });
            if let Some(endpoint) = &settings.endpoint {
                builder = builder.with_endpoint(endpoint.clone());
            }
            let endpoint = settings.endpoint.as_deref();
            builder
                .with_http_connector(secure_client_for(
                    endpoint.unwrap_or("https://blob.core.windows.net"),
                )?)
                .with_retry(retries())
                .with_disable_tagging(true)
                .with_container_name(bucket)
                .build()
                .map(|store| Arc::new(store) as _)
        }
    };
    store.map_err(|error| {
        let problem = match error {
            // The rest of its message is "Generic S3 error".
            object_store::Error::Generic { source, .. } => source.to_string(),
            error => error.to_string(),
        };
        ConnectError::Settings(first_line(&problem))
    })
}

/// Returns the builder of a service with the settings of those variables with a prefix that it
/// knows.
fn configured<B, K: FromStr>(
    builder: B,
    variables: &[(String, String)],
    prefix: &str,
    set: impl Fn(B, K, &str) -> B,
) -> B {
    variables
        .iter()
        .filter(|(name, _)| name.starts_with(prefix))
        .filter_map(|(name, value)| Some((name.parse::<K>().ok()?, value)))
        .fold(builder, |builder, (key, value)| set(builder, key, value))
}

/// Returns a client for an endpoint that receives tokens. Refuses plain HTTP to other machines.
fn secure_client_for(endpoint: &str) -> Result<ReqwestConnector, ConnectError> {
    let client = client_for(endpoint)?;
    match Url::parse(endpoint) {
        Ok(url) if url.scheme() == "http" && !is_loopback(&url) => {
            Err(ConnectError::Plain(endpoint.to_owned()))
        }
        _ => Ok(client),
    }
}

fn client_for(endpoint: &str) -> Result<ReqwestConnector, ConnectError> {
    let url = Url::parse(endpoint).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
    });
    // The URL may have a password.
    let shown = endpoint.rsplit('@').next().unwrap_or_default();
    let url = url.ok_or_else(|| ConnectError::Endpoint(shown.to_owned()))?;
    Ok(ReqwestConnector(http_client(&url)?))
}

/// Returns the policy for answers such as 503 and for lost connections. A caller waits meanwhile.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: 5,
        retry_timeout: Duration::from_secs(15),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(address: &str, endpoint: Option<&str>, variables: &[(&str, &str)], want: Expect) {
        let settings = BucketSettings {
            address: address.parse().unwrap(),
            endpoint: endpoint.map(str::to_owned),
            region: None,
        };
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let text = match connect(&settings, variables) {
            Ok(store) => store.to_string(),
            Err(error) => error.to_string(),
        };
        want.assert_eq(&text);
    }

    #[test]
    fn each_service_is_connected() {
        let secret = "a very secret key";
        check("s3://bucket/a", None, &[], expect!["AmazonS3(bucket)"]);
        check("s3://bucket", Some("http://127.0.0.1:9"), &[], expect!["AmazonS3(bucket)"]);
        let account = ("AZURE_STORAGE_ACCOUNT_NAME", "account");
        check(
            "az://container",
            None,
            &[account],
            expect!["MicrosoftAzure { account: account, container: container }"],
        );
        check("az://container", None, &[], expect!["Account must be specified"]);
        check(
            "gs://bucket",
            None,
            &[("GOOGLE_BEARER_TOKEN", secret)],
            expect!["GoogleCloudStorage(bucket)"],
        );
        check(
            "gs://bucket",
            None,
            &[("GOOGLE_SERVICE_ACCOUNT_KEY", secret)],
            expect![
                "GCP credential error: Unable to decode service account file: expected value at line 1 column 1"
            ],
        );
        check(
            "s3://bucket",
            Some("https://user:secret@host"),
            &[],
            expect![[r#"endpoint "host" is not a URL with http: or https: and without a user"#]],
        );
        check(
            "az://container",
            Some("http://host"),
            &[account],
            expect![[
                r#"endpoint "http://host" has http: and is not on this machine; the service needs https:"#
            ]],
        );
        check(
            "s3://bucket",
            Some("host:9000"),
            &[],
            expect![[
                r#"endpoint "host:9000" is not a URL with http: or https: and without a user"#
            ]],
        );
    }
}
