//! A client of test servers, with the discovery of the SDKs.

mod error;
mod events;

use std::{collections::BTreeMap, fmt, sync::OnceLock, time::Duration};

use marquetry_endpoint::{displayable, http_client};
use marquetry_judge::{
    ApiKey, TestCase, TestResult,
    store::{
        CaseHistory, Comparison, Configuration, ConfigurationFilter, Flakiness, JudgeAgreement,
        NewConfiguration, Outcome, OutcomeFilter, Override, Page, PageRequest, ResultFilter,
        TestRun,
    },
};
use reqwest::{Client, Method, Response, Url};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub use self::error::ClientError;
use self::events::Events;
use crate::{Health, query};

/// Runs tests on a test server.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use marquetry_test_server::{client::TestClient, TestCase};
///
/// let client = TestClient::discover();
/// let case = TestCase::new("creates a file", "Create hello.txt");
/// let result = client.run_test(&case).await?;
/// println!("{}: {}", result.success, result.verdict.reasoning);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TestClient {
    given: Option<String>,
    token: Option<ApiKey>,
    ports: Vec<u16>,
    /// Longest answer that is read, in bytes.
    max_answer_bytes: usize,
    found: OnceLock<(Url, Client)>,
}

/// One more test of a batch has ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Tests that have ended.
    pub done: usize,
    /// Tests of the batch.
    pub total: usize,
    /// Position of this test in the batch.
    pub index: usize,
    /// Its result.
    pub result: &'a TestResult,
}

/// A person's verdict on a trial, for [`TestClient::put_override`].
#[derive(Clone, Copy, Debug, Default)]
pub struct NewOverride<'a> {
    /// The number of the trial, from 0.
    pub trial: u32,
    /// Whether the trial passed, in the person's opinion.
    pub passed: bool,
    /// Why.
    pub reason: &'a str,
    /// The person's name. A server with authentication uses the caller's name, and refuses another
    /// one.
    pub author: Option<&'a str>,
}

/// Cases to run with a stored configuration, for [`TestClient::run_configuration`].
#[derive(Clone, Copy, Default)]
pub struct ConfigurationRun<'a> {
    /// The name of the run; that of the configuration if absent.
    pub name: Option<&'a str>,
    /// The cases. The servers and the judge of the configuration replace their own.
    pub cases: &'a [TestCase],
    /// The values of the variables that the configuration refers to, by name.
    pub variables: &'a [(&'a str, &'a str)],
}

/// Hides the values of the variables, which may be secrets.
impl fmt::Debug for ConfigurationRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&str> = self.variables.iter().map(|(name, _)| *name).collect();
        f.debug_struct("ConfigurationRun")
            .field("name", &self.name)
            .field("cases", &self.cases)
            .field("variables", &variables)
            .finish()
    }
}

#[derive(Deserialize)]
struct ResultEvent {
    index: usize,
    done: usize,
    total: usize,
    result: TestResult,
}

#[derive(Deserialize)]
struct Problem {
    error: String,
}

impl TestClient {
    /// Ports of dedicated test servers, in the order in which they are tried (seed 004).
    pub const TEST_PORTS: [u16; 3] = [3002, 3003, 3004];

    /// Ports of main servers with testing enabled, tried after [`Self::TEST_PORTS`].
    pub const MAIN_PORTS: [u16; 2] = [3001, 3000];

    /// Time limit of one health check.
    pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

    /// Returns a client that looks for a server on this machine at its first call. It trusts the
    /// first program that says it is a test server: cases go to it, with the keys in them. On a
    /// machine that others use, too, name the URL with [`Self::at`].
    #[must_use]
    pub fn discover() -> Self {
        let ports = Self::TEST_PORTS.into_iter().chain(Self::MAIN_PORTS).collect();
        Self { given: None, token: None, ports, max_answer_bytes: 64 << 20, found: OnceLock::new() }
    }

    /// Returns a client of the server at `url`. The first call checks that it is a test server.
    #[must_use]
    pub fn at(url: impl Into<String>) -> Self {
        Self { given: Some(url.into()), ..Self::discover() }
    }

    /// Sends a token with each request. It requires a URL: with [`Self::discover`], calls fail with
    /// [`ClientError::TokenWithoutUrl`].
    #[must_use]
    pub fn with_token(self, token: ApiKey) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Looks for a server at these ports instead.
    #[must_use]
    pub fn with_ports(self, ports: impl IntoIterator<Item = u16>) -> Self {
        Self { ports: ports.into_iter().collect(), ..self }
    }

    /// Returns the server's URL, once it was found.
    pub fn base_url(&self) -> Option<&str> {
        self.found.get().map(|(url, _)| url.as_str())
    }

    /// Finds the server; every other method does so itself.
    ///
    /// # Errors
    ///
    /// Returns an error if the given URL is not a test server ([`ClientError::NotATestServer`]).
    /// Without a URL, returns an error if no server is found ([`ClientError::NoTestServer`]), or if
    /// a token was given ([`ClientError::TokenWithoutUrl`]).
    pub async fn connect(&self) -> Result<(), ClientError> {
        self.server().await.map(|_| ())
    }

    /// Asks the server for its state.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.json(Method::GET, "/api/test/health", None).await
    }

    /// Runs one test. A test that fails or cannot be run is a result, too.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn run_test(&self, case: &TestCase) -> Result<TestResult, ClientError> {
        let body = serde_json::to_vec(case).map_err(ClientError::Case)?;
        self.json(Method::POST, "/api/test/run", Some(body)).await
    }

    /// Runs many tests as one run, and returns their results in the order of the cases. Dropping
    /// the future stops the batch on the server.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn run_batch(
        &self,
        name: Option<&str>,
        cases: &[TestCase],
        on_progress: impl FnMut(Progress<'_>),
    ) -> Result<(TestRun, Vec<TestResult>), ClientError> {
        let body = json!({"name": name, "cases": cases});
        self.batch("/api/test/batch", &body, cases.len(), on_progress).await
    }

    /// Runs cases as one run with the servers and the judge of a stored configuration instead of
    /// their own. The run has the id of the configuration. Otherwise as [`Self::run_batch`].
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn run_configuration(
        &self,
        id: &str,
        run: ConfigurationRun<'_>,
        on_progress: impl FnMut(Progress<'_>),
    ) -> Result<(TestRun, Vec<TestResult>), ClientError> {
        let ConfigurationRun { name, cases, variables } = run;
        let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
        let body = json!({"name": name, "cases": cases, "variables": variables});
        let path = format!("/api/test/configurations/{}/run", segment(id));
        self.batch(&path, &body, cases.len(), on_progress).await
    }

    async fn batch(
        &self,
        path: &str,
        body: &Value,
        count: usize,
        mut on_progress: impl FnMut(Progress<'_>),
    ) -> Result<(TestRun, Vec<TestResult>), ClientError> {
        let body = body.to_string().into_bytes();
        let response = self.request(Method::POST, path, Some(body)).await?;
        let mut events = Events::new(response, self.max_answer_bytes);
        let mut results: Vec<Option<TestResult>> = vec![None; count];
        while let Some((name, data)) = events.next().await? {
            match name.as_str() {
                "result" => {
                    let ResultEvent { index, done, total, result } = parse(&data)?;
                    on_progress(Progress { done, total, index, result: &result });
                    if let Some(slot) = results.get_mut(index) {
                        *slot = Some(result);
                    }
                }
                "completed" => {
                    let all = results.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| {
                        ClientError::Malformed("the batch has ended without all results".to_owned())
                    })?;
                    return Ok((parse(&data)?, all));
                }
                "failed" => return Err(ClientError::Batch(parse::<Problem>(&data)?.error)),
                _ => {}
            }
        }
        Err(ClientError::CutStream)
    }

    /// Stores servers and a judge under a name, and returns the configuration with its id. Secrets
    /// are refused: write references such as `${NAME}` in their place.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn create_configuration(
        &self,
        new: &NewConfiguration,
    ) -> Result<Configuration, ClientError> {
        let body = serde_json::to_vec(new).map_err(ClientError::Case)?;
        self.json(Method::POST, "/api/test/configurations", Some(body)).await
    }

    /// Returns one page of configurations, the newest first. Of several with one name, the first is
    /// the current one.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn configurations(
        &self,
        filter: &ConfigurationFilter,
    ) -> Result<Page<Configuration>, ClientError> {
        let origin = filter.origin.map(|origin| origin.as_str().to_owned());
        let limit = filter.page.limit.map(|limit| limit.to_string());
        let values = [
            ("name", &filter.name),
            ("origin", &origin),
            ("limit", &limit),
            ("cursor", &filter.page.cursor),
        ];
        self.json(Method::GET, &with_query("/api/test/configurations", &values), None).await
    }

    /// Returns one configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn configuration(&self, id: &str) -> Result<Configuration, ClientError> {
        self.json(Method::GET, &format!("/api/test/configurations/{}", segment(id)), None).await
    }

    /// Deletes a configuration that no run has, and returns it.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn delete_configuration(&self, id: &str) -> Result<Configuration, ClientError> {
        self.json(Method::DELETE, &format!("/api/test/configurations/{}", segment(id)), None).await
    }

    /// Returns one page of stored results, the newest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn results(&self, filter: &ResultFilter) -> Result<Page<TestResult>, ClientError> {
        let query = query::write(filter);
        let path = if query.is_empty() {
            "/api/test/results".to_owned()
        } else {
            format!("/api/test/results?{query}")
        };
        self.json(Method::GET, &path, None).await
    }

    /// Returns one result with its trials, calls and votes.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn result(&self, id: &str) -> Result<TestResult, ClientError> {
        self.json(Method::GET, &format!("/api/test/results/{}", segment(id)), None).await
    }

    /// Returns short forms of results, without trials, the newest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn outcomes(&self, filter: &OutcomeFilter) -> Result<Vec<Outcome>, ClientError> {
        let limit = filter.limit.map(|limit| limit.to_string());
        let values = [("name", &filter.name), ("run", &filter.run), ("limit", &limit)];
        let path = with_query("/api/test/outcomes", &values);
        Ok(self.json::<Page<Outcome>>(Method::GET, &path, None).await?.items)
    }

    /// Returns one page of runs, the newest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn runs(&self, page: &PageRequest) -> Result<Page<TestRun>, ClientError> {
        let limit = page.limit.map(|limit| limit.to_string());
        let path = with_query("/api/test/runs", &[("limit", &limit), ("cursor", &page.cursor)]);
        self.json(Method::GET, &path, None).await
    }

    /// Returns one run.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn run(&self, id: &str) -> Result<TestRun, ClientError> {
        self.json(Method::GET, &format!("/api/test/runs/{}", segment(id)), None).await
    }

    /// Returns the pass rate of each case, and how often its verdict changed.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn cases(&self) -> Result<Vec<Flakiness>, ClientError> {
        let page: Page<Flakiness> = self.json(Method::GET, "/api/test/cases", None).await?;
        Ok(page.items)
    }

    /// Returns the history of a case: at most `limit` results.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn history(&self, name: &str, limit: u32) -> Result<CaseHistory, ClientError> {
        let values = [("name", &Some(name.to_owned())), ("limit", &Some(limit.to_string()))];
        self.json(Method::GET, &with_query("/api/test/history", &values), None).await
    }

    /// Compares two runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn compare(&self, base: &str, new: &str) -> Result<Comparison, ClientError> {
        let values = [("base", &Some(base.to_owned())), ("new", &Some(new.to_owned()))];
        self.json(Method::GET, &with_query("/api/test/compare", &values), None).await
    }

    /// Returns how well each judge agrees with people.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn judges(&self) -> Result<Vec<JudgeAgreement>, ClientError> {
        let page: Page<JudgeAgreement> = self.json(Method::GET, "/api/test/judges", None).await?;
        Ok(page.items)
    }

    /// Returns people's verdicts on the trials of a result, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn overrides(&self, result: &str) -> Result<Vec<Override>, ClientError> {
        let path = format!("/api/test/results/{}/overrides", segment(result));
        Ok(self.json::<Page<Override>>(Method::GET, &path, None).await?.items)
    }

    /// Stores a person's verdict on a trial, and returns it as it was stored. Without `author` the
    /// server names the caller.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not found or refuses the request; see [`ClientError`].
    pub async fn put_override(
        &self,
        result: &str,
        verdict: NewOverride<'_>,
    ) -> Result<Override, ClientError> {
        let NewOverride { trial, passed, reason, author } = verdict;
        let body = json!({"trial": trial, "passed": passed, "reason": reason, "author": author});
        let path = format!("/api/test/results/{}/overrides", segment(result));
        self.json(Method::POST, &path, Some(body.to_string().into_bytes())).await
    }

    async fn server(&self) -> Result<&(Url, Client), ClientError> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let found = match &self.given {
            Some(given) => {
                let found = match Url::parse(given.trim_end_matches('/')) {
                    Ok(url) => self.test_server(&url).await?.map(|client| (url, client)),
                    Err(_) => None,
                };
                found.ok_or_else(|| ClientError::NotATestServer(given.clone()))?
            }
            None => self.search().await?,
        };
        Ok(self.found.get_or_init(|| found))
    }

    async fn search(&self) -> Result<(Url, Client), ClientError> {
        // Any program may listen on these ports. The requests after the search would give it the
        // token.
        if self.token.is_some() {
            return Err(ClientError::TokenWithoutUrl);
        }
        for port in &self.ports {
            let url = Url::parse(&format!("http://127.0.0.1:{port}"))
                .map_err(|error| ClientError::Malformed(error.to_string()))?;
            if let Some(client) = self.test_server(&url).await? {
                return Ok((url, client));
            }
        }
        Err(ClientError::NoTestServer { ports: self.ports.clone() })
    }

    /// Returns a client for the URL if a test server answers there.
    async fn test_server(&self, url: &Url) -> Result<Option<Client>, ClientError> {
        let client = http_client(url).map_err(|error| ClientError::Client(error.to_string()))?;
        let request = self.prepared(&client, Method::GET, url, "/api/test/health", None)?;
        let asked = async {
            let response = request.send().await.ok().filter(|it| it.status().is_success())?;
            // A health report has some dozen bytes.
            let body = read(response, 64 << 10).await.ok()?;
            serde_json::from_slice::<Health>(&body).ok().filter(|health| health.testing)
        };
        // A refusal, a timeout or an answer that is not JSON means that this is not a test server.
        let health = tokio::time::timeout(Self::HEALTH_TIMEOUT, asked).await.ok().flatten();
        Ok(health.map(|_| client))
    }

    fn prepared(
        &self,
        client: &Client,
        method: Method,
        url: &Url,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<reqwest::RequestBuilder, ClientError> {
        let text = format!("{}{path}", url.as_str().trim_end_matches('/'));
        let url = Url::parse(&text).map_err(|_| ClientError::NotATestServer(text))?;
        let mut request = client.request(method, url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        Ok(request)
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response, ClientError> {
        let (url, client) = self.server().await?;
        let request = self.prepared(client, method, url, path, body)?;
        let response = request.send().await.map_err(|error| ClientError::Unreachable {
            url: url.to_string(),
            problem: displayable(&error.without_url().to_string(), ""),
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = read(response, 64 << 10).await.unwrap_or_default();
        let reason = serde_json::from_slice::<Problem>(&body).map_or_else(
            |_| displayable(&String::from_utf8_lossy(&body), ""),
            |problem| problem.error,
        );
        Err(ClientError::Refused { status, reason })
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<T, ClientError> {
        let response = self.request(method, path, body).await?;
        let body = read(response, self.max_answer_bytes).await?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Malformed(error.to_string()))
    }
}

/// Returns a path with the parameters that have a value.
fn with_query(path: &str, values: &[(&str, &Option<String>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in values {
        query.extend_pairs(value.as_ref().map(|value| (name, value)));
    }
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// Returns an id as a segment of a path.
fn segment(id: &str) -> String {
    form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>().replace('+', "%20")
}

/// Reads a body of at most `limit` bytes.
async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, ClientError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| ClientError::CutStream)? {
        if body.len() + chunk.len() > limit {
            return Err(ClientError::TooLong(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn parse<T: DeserializeOwned>(data: &str) -> Result<T, ClientError> {
    serde_json::from_str(data).map_err(|error| ClientError::Malformed(error.to_string()))
}
