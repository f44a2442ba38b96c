//! Scenarios of authorization.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::{client::legacy::Client as HyperClient, rt::TokioExecutor};
use marquetry_oauth::{
    Algorithm, Secret, SigningKey,
    client::{
        ClientProof, Grant, IdentityProvider, LoginRequest, OAuth, OAuthOptions, RegisteredClient,
        UserAgent,
    },
};
use marquetry_protocol::{
    client::{AuthorizationError, CallOptions, ClientOptions},
    types::CallToolParams,
};
use serde_json::{Value, json};

use crate::{Assignment, Failed};

/// Connects with authorization and uses all features: some scenarios require more for a call than
/// for a list, or something else after the first request.
pub(crate) async fn run(assignment: &Assignment) -> Result<(), Failed> {
    let oauth = OAuth::new(&assignment.url, options(assignment)?)?;
    let options = ClientOptions { authorizer: Some(Arc::new(oauth)), ..ClientOptions::default() };
    let client = assignment.connect(options).await?;
    for tool in client.list_tools().await? {
        let call = CallToolParams::new(&tool.name, &json!({}))?;
        client.call_tool_raw(&call, CallOptions::default()).await?;
    }
    client.close().await;
    Ok(())
}

/// Options of a client that logs in without a user, with the credentials of the scenario.
fn options(assignment: &Assignment) -> Result<OAuthOptions, Failed> {
    let told = |key: &str| match &assignment.context[key] {
        Value::String(text) => Ok(text.clone()),
        _ => Err(Failed::from(format!("the scenario does not tell '{key}'"))),
    };
    let mut options = OAuthOptions::default();
    options.user_agent = Some(Arc::new(Headless));
    // The suite names this document, but never reads it.
    options.client_metadata_url =
        Some("https://conformance-test.local/client-metadata.json".to_owned());
    if let Ok(id) = told("client_id") {
        let proof = match (told("client_secret"), told("private_key_pem")) {
            (Ok(secret), _) => ClientProof::Secret(secret.into()),
            (_, Ok(pem)) => ClientProof::Key(SigningKey::from_pem(&pem, Algorithm::ES256)?),
            _ => ClientProof::None,
        };
        // In some scenarios the suite gives a secret without its issuer.
        options.secret_for_first_issuer = true;
        options.client = Some(RegisteredClient { id, proof, issuer: told("issuer").ok() });
    }
    options.grant = match assignment.scenario.as_str() {
        "auth/client-credentials-jwt" | "auth/client-credentials-basic" => Grant::ClientCredentials,
        "auth/wif-jwt-bearer" => Grant::JwtBearer(Arc::new(Secret::from(told("valid_jwt")?))),
        "auth/enterprise-managed-authorization" => Grant::EnterpriseManaged(IdentityProvider {
            token_endpoint: told("idp_token_endpoint")?,
            client_id: told("idp_client_id")?,
            client_secret: None,
            id_token: Arc::new(Secret::from(told("idp_id_token")?)),
        }),
        _ => Grant::Login,
    };
    Ok(options)
}

/// Opens the page without a user: the suite's servers accept everyone.
struct Headless;

#[async_trait]
impl UserAgent for Headless {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:8765/callback".to_owned()
    }

    async fn login(&self, request: &LoginRequest) -> Result<String, AuthorizationError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| AuthorizationError::Io {
            what: "login".to_owned(),
            source: io::Error::other(error),
        };
        let uri = request.url.parse().map_err(|error| failed(Box::new(error)))?;
        let client = HyperClient::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let response = tokio::time::timeout(Duration::from_secs(10), client.get(uri))
            .await
            .map_err(|error| failed(Box::new(error)))?
            .map_err(|error| failed(Box::new(error)))?;
        let back = response.headers().get("location").and_then(|back| back.to_str().ok());
        back.map(str::to_owned).ok_or_else(|| failed("it sends nobody back".into()))
    }
}
