//! What a check of a bucket says.

use expect_test::{Expect, expect};
use marquetry_artifact_bucket::{BucketSettings, BucketStore, connect};
use marquetry_artifacts::{ArtifactStore as _, Scope};

use crate::{
    conformance::{artifact, options},
    proxy::Fault,
    server::{Server, VARIABLES, bucket},
};

async fn check_at(address: &str, endpoint: &str, want: Expect) {
    let address = address.parse().unwrap();
    let settings = BucketSettings { address, endpoint: Some(endpoint.to_owned()), region: None };
    let variables = VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let bucket = connect(&settings, variables).unwrap();
    let store = BucketStore::new(bucket, &settings.address, options());
    let text = match store.check().await {
        Ok(()) => "good".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(!text.contains("hidden-value"), "{text}");
    want.assert_eq(&text);
}

async fn open(endpoint: &str, prefix: &str) -> BucketStore {
    let (bucket, address) = bucket(endpoint, prefix);
    BucketStore::open(bucket, &address, options()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_cannot_work_is_explained() {
    let Some(server) = Server::start().await else { return };
    let url = server.proxy.url();
    check_at("s3://bucket/check", url, expect!["good"]).await;
    check_at("s3://bucket/check", url, expect!["good"]).await;
    let store = server.store("check", options());
    store.put(&Scope::local(), artifact("a", "x")).await.unwrap();
    check_at(
        "s3://bucket/check",
        url,
        expect![[
            r#"the artifact bucket holds other objects below its prefix, such as "check/clock"; name an empty prefix"#
        ]],
    )
    .await;
    open(url, "opened").await.put(&Scope::local(), artifact("a", "x")).await.unwrap();
    open(url, "opened").await;
    check_at("s3://bucket/opened", url, expect!["good"]).await;
    check_at("s3://bucket", url, expect![[r#"the artifact bucket holds other objects below its prefix, such as "check/clock"; name an empty prefix"#]]).await;
    check_at("s3://missing/check", url, expect!["the artifact bucket does not exist"]).await;
    check_at(
        "s3://bucket/check",
        "http://127.0.0.1:1",
        expect![
            "the server of the artifact bucket cannot be reached: Connection refused (os error 111)"
        ],
    )
    .await;
    for (method, status, code, want) in [
        (
            "GET",
            403,
            "AccessDenied",
            expect!["the credentials have no right to read objects of the artifact bucket"],
        ),
        (
            "PUT",
            403,
            "AccessDenied",
            expect!["the credentials have no right to write objects of the artifact bucket"],
        ),
        (
            "DELETE",
            403,
            "AccessDenied",
            expect!["the credentials have no right to delete objects of the artifact bucket"],
        ),
        (
            "GET",
            403,
            "InvalidAccessKeyId",
            expect![
                "the server of the artifact bucket does not know the access key; check AWS_ACCESS_KEY_ID"
            ],
        ),
        (
            "GET",
            403,
            "SignatureDoesNotMatch",
            expect!["the secret key for the artifact bucket is wrong; check AWS_SECRET_ACCESS_KEY"],
        ),
        (
            "GET",
            403,
            "RequestTimeTooSkewed",
            expect![
                "the clock of this machine differs too much from that of the artifact bucket's server"
            ],
        ),
        (
            "GET",
            400,
            "AuthorizationHeaderMalformed",
            expect![
                "the artifact bucket is in another region; set artifacts.bucket_region or AWS_REGION"
            ],
        ),
        (
            "GET",
            301,
            "PermanentRedirect",
            expect![
                "the artifact bucket is in another region; set artifacts.bucket_region or AWS_REGION"
            ],
        ),
        (
            "GET",
            400,
            "ExpiredToken",
            expect!["the session token for the artifact bucket has expired"],
        ),
        (
            "GET",
            401,
            "Unauthorized",
            expect!["the server of the artifact bucket does not accept the credentials"],
        ),
        ("PUT", 418, "Teapot", expect!["the artifact bucket refused to write (status 418)"]),
    ] {
        server.proxy.fail(method, "/", Fault::Refused(status, code), usize::MAX);
        check_at("s3://bucket/opened", url, want).await;
        server.proxy.heal();
    }
}
