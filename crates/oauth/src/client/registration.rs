//! The client's id at an authorization server.

use serde::Deserialize;
use serde_json::json;

use marquetry_protocol::client::AuthorizationError;

use super::{
    ClientProof, OAuthOptions, SecretMethod,
    clock::now,
    discovery::{AuthorizationServer, Discovery},
    store::{Credentials, Method, Registration},
    token::{ClientIdentity, denied, fetch_error},
};
use crate::{Secret, lenient, url::same_url};

/// Returns the client's id at `server`: the configured id, the URL of a metadata document, or the
/// id of a new registration, in the order of 2025-11-25, "Client Registration Approaches". Adds a
/// new registration to `credentials`.
pub(super) async fn identity(
    options: &OAuthOptions,
    server: &AuthorizationServer,
    discovery: &Discovery<'_>,
    credentials: &mut Credentials,
) -> Result<ClientIdentity, AuthorizationError> {
    if let Some(client) = &options.client {
        let issuer = client.issuer.as_ref().or(credentials.first_issuer.as_ref());
        if let Some(issuer) = issuer
            && !same_url(issuer, &server.issuer)
        {
            return Err(AuthorizationError::Credentials(format!(
                "client '{}' is known to {issuer}, not to {}",
                client.id, server.issuer
            )));
        }
        if client.issuer.is_none() {
            credentials.first_issuer = Some(server.issuer.clone());
        }
        return Ok(ClientIdentity {
            id: client.id.clone(),
            method: preregistered_method(options.secret_method, server, &client.proof)?,
            proof: client.proof.clone(),
        });
    }
    if let Some(url) = &options.client_metadata_url
        && server.client_id_metadata_document_supported
    {
        return Ok(ClientIdentity {
            id: url.clone(),
            method: Method::None,
            proof: ClientProof::None,
        });
    }
    let redirect_uri = options.user_agent.as_ref().map(|agent| agent.redirect_uri());
    let known = credentials.registration(&server.issuer).filter(|known| {
        redirect_uri.as_ref().is_none_or(|uri| known.redirect_uri == *uri)
            && known.expires_at.is_none_or(|expires_at| expires_at > now() + 60)
    });
    let registration = match (known, redirect_uri) {
        (Some(known), _) => known.clone(),
        (None, Some(redirect_uri)) => {
            let registration = register(options, server, discovery, redirect_uri).await?;
            credentials.forget_registration(&server.issuer);
            credentials.registrations.insert(server.issuer.clone(), registration.clone());
            registration
        }
        (None, None) => {
            return Err(AuthorizationError::LoginRequired { issuer: server.issuer.clone() });
        }
    };
    let proof = registration.client_secret.map_or(ClientProof::None, ClientProof::Secret);
    Ok(ClientIdentity { id: registration.client_id, method: registration.method, proof })
}

/// Returns how a client with a configured id authenticates itself. A server that names no method
/// supports the secret in the header (RFC 8414, section 2).
fn preregistered_method(
    configured: Option<SecretMethod>,
    server: &AuthorizationServer,
    proof: &ClientProof,
) -> Result<Method, AuthorizationError> {
    let wanted: &[Method] = match proof {
        ClientProof::None => return Ok(Method::None),
        ClientProof::Secret(_) => match configured {
            Some(SecretMethod::Basic) => return Ok(Method::ClientSecretBasic),
            Some(SecretMethod::Post) => return Ok(Method::ClientSecretPost),
            None => &[Method::ClientSecretBasic, Method::ClientSecretPost],
        },
        ClientProof::Key(_) => &[Method::PrivateKeyJwt],
    };
    let Some(known) = server.auth_methods() else { return Ok(wanted[0]) };
    let found = wanted.iter().find(|method| known.iter().any(|known| known == method.as_str()));
    found
        .copied()
        .ok_or_else(|| server.unsupported("does not support the client's kind of authentication"))
}

/// Registers the client (dynamic client registration, RFC 7591).
async fn register(
    options: &OAuthOptions,
    server: &AuthorizationServer,
    discovery: &Discovery<'_>,
    redirect_uri: String,
) -> Result<Registration, AuthorizationError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct RegistrationAnswer {
        #[serde(deserialize_with = "lenient::text_or_empty")]
        client_id: String,
        #[serde(deserialize_with = "lenient::text")]
        client_secret: Option<String>,
        #[serde(deserialize_with = "lenient::number")]
        client_secret_expires_at: Option<f64>,
        #[serde(deserialize_with = "lenient::text")]
        token_endpoint_auth_method: Option<String>,
    }
    const METHODS: [Method; 3] =
        [Method::None, Method::ClientSecretBasic, Method::ClientSecretPost];
    let Some(endpoint) = &server.registration_endpoint else {
        return Err(server.unsupported(
            "registers no clients by itself; register one there and configure its client id",
        ));
    };
    // A program on a user's machine cannot keep a secret from that user.
    let method = match server.auth_methods() {
        None => Method::None,
        Some(known) => *METHODS
            .iter()
            .find(|method| known.iter().any(|known| known == method.as_str()))
            .ok_or_else(|| {
                server.unsupported("supports no authentication of a client that registers itself")
            })?,
    };
    let body = json!({
        "client_name": options.client_name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method.as_str(),
        // SEP-837: only native applications redirect to a loopback address.
        "application_type": if redirect_uri.starts_with("https:") { "web" } else { "native" },
    });
    let uri = discovery.checked("registration endpoint", endpoint)?;
    let head = http::Request::post(uri)
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::ACCEPT, "application/json");
    let answer = discovery
        .fetcher
        .send(head, body.to_string().into())
        .await
        .map_err(|error| fetch_error(endpoint, error.to_string()))?;
    if !answer.status.is_success() {
        return Err(denied(endpoint, &answer));
    }
    // The answer contains a secret, which an error must not show.
    let registered = serde_json::from_slice::<RegistrationAnswer>(&answer.body)
        .ok()
        .filter(|registered| !registered.client_id.is_empty())
        .ok_or_else(|| fetch_error(endpoint, "returned an invalid client registration"))?;
    let assigned = registered.token_endpoint_auth_method.as_deref();
    let known = assigned.map(|name| METHODS.into_iter().find(|method| method.as_str() == name));
    let method = match known {
        None => method,
        Some(Some(assigned)) => assigned,
        Some(None) => {
            let problem = "registered this client with an unsupported authentication method";
            return Err(fetch_error(endpoint, problem));
        }
    };
    Ok(Registration {
        client_id: registered.client_id,
        client_secret: registered
            .client_secret
            .filter(|_| method != Method::None)
            .map(Secret::from),
        method,
        redirect_uri,
        expires_at: registered.client_secret_expires_at.map(|at| at as u64).filter(|at| *at != 0),
    })
}
