//! The server of the dashboard: its port, access control, and routes.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Query, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use http::{StatusCode, header};
use kube::Client;
use longboat_key::{Key, Name, Namespace, names::is_subdomain};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::{
    Cluster, Reach, Simulation, answer::Problem, assets, chat, cluster::parse_key, feed, guard::Guard,
    objects, page::Page, picker,
};

/// The most connections. A browser opens six for a page.
const MAX_CONNECTIONS: usize = 64;
/// The longest request body, in bytes: a chat or a manifest.
const MAX_BODY_BYTES: usize = 1 << 20;
/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The port is not available.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on 127.0.0.1:{port} for the dashboard")]
pub struct BindError {
    /// The port.
    pub port: u16,
    /// The operating system's reason.
    #[source]
    source: io::Error,
}

/// A server whose port is bound.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    guard: Guard,
}

// === impl Server ===

impl Server {
    /// Binds a port of 127.0.0.1; 0 means any free port.
    ///
    /// # Errors
    ///
    /// If the port is taken.
    pub async fn bind(port: u16) -> Result<Self, BindError> {
        let bind = |source| BindError { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        Ok(Self { listener, address, guard: Guard::new(address) })
    }

    /// Returns the address to open in a browser. It contains the token, so only the user may see it.
    pub fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.guard.token())
    }

    /// Serves until shutdown. `http` sends the requests of the playground to services.
    pub async fn run(
        self,
        cluster: Arc<dyn Cluster>,
        client: Client,
        reach: Reach,
        http: reqwest::Client,
        shutdown: CancellationToken,
    ) {
        let page = Page::new(cluster, client, reach, self.guard, http, shutdown.clone());
        let router = router(Arc::new(page));
        let connection = |stream, _| serve(router.clone(), stream);
        longboat_accept::until(&shutdown, self.listener, MAX_CONNECTIONS, connection).await.shutdown().await;
    }
}

async fn serve(router: Router, stream: TcpStream) {
    let service = hyper_util::service::TowerToHyperService::new(router.into_service());
    longboat_accept::serve_http1(stream, HEAD_TIMEOUT, service).await;
}

fn router(page: Arc<Page>) -> Router {
    Router::new()
        .route("/api/feed", get(stream_feed))
        .route("/api/events", get(events))
        .route("/api/logs", get(logs))
        .route("/api/findings", get(findings))
        .route("/api/keys", get(keys))
        .route("/api/explain", get(explain))
        .route("/api/decisions", get(decisions))
        .route("/api/manifest", get(manifest).put(replace))
        .route("/api/diff", post(diff))
        .route("/api/simulate", post(simulate))
        .route("/api/chat", post(chat))
        .fallback(asset)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(Arc::clone(&page), guarded))
        .with_state(page)
}

/// Checks access to each request, and adds the security headers to the response.
async fn guarded(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let secret = head.uri.path().starts_with("/api/");
    // Files of the page need no token, because a browser loads them before the script has read it.
    let mut response = match page.guard.check(&head, secret) {
        Ok(()) => next.run(Request::from_parts(head, body)).await,
        Err(status) => {
            let sentence = match status {
                StatusCode::UNAUTHORIZED => {
                    "open the address that `longboat` printed: it contains the \
                                             access token"
                }
                StatusCode::FORBIDDEN => "this request comes from a page of another origin",
                _ => "the dashboard does not serve this host name",
            };
            Problem { status, sentence: sentence.into() }.into_response()
        }
    };
    assets::protect(response.headers_mut());
    response
}

async fn asset(request: Request) -> Response {
    match (request.method().as_str(), assets::find(request.uri().path())) {
        ("GET" | "HEAD", Some(asset)) => ([(header::CONTENT_TYPE, asset.kind)], asset.bytes).into_response(),
        (_, Some(_)) => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        (_, None) => StatusCode::NOT_FOUND.into_response(),
    }
}

// === query parameters ===

#[derive(Deserialize)]
struct QueryParameters {
    service: Option<String>,
    path: Option<String>,
    id: Option<String>,
    namespace: Option<String>,
    pod: Option<String>,
    container: Option<String>,
}

type Parameters = Query<QueryParameters>;
type Answer = Result<Json<Value>, Problem>;

// === impl QueryParameters ===

impl QueryParameters {
    /// Returns the service, if the request names one.
    fn named(&self) -> Result<Option<Key>, Problem> {
        let name = self.service.as_deref().filter(|name| !name.is_empty());
        name.map(|name| parse_key(name).ok_or_else(|| Problem::wrong("service: expected `namespace/name`")))
            .transpose()
    }

    fn service(&self) -> Result<Key, Problem> {
        self.named()?.ok_or_else(|| Problem::wrong("service: expected `namespace/name`"))
    }
}

/// Returns the service that a request names, if it exists.
async fn existing(page: &Page, query: &QueryParameters) -> Result<Key, Problem> {
    let service = query.service()?;
    objects::exists(&page.client, &service).await?;
    Ok(service)
}

async fn stream_feed(State(page): State<Arc<Page>>, Query(query): Parameters) -> Result<Response, Problem> {
    let service = query.named()?;
    let permit = page.stream()?;
    Ok(feed::answer(page, service, permit))
}

async fn events(State(page): State<Arc<Page>>, Query(query): Parameters) -> Answer {
    let _permit = page.work()?;
    objects::events(&page.client, &query.service()?).await.map(Json)
}

async fn logs(State(page): State<Arc<Page>>, Query(query): Parameters) -> Result<String, Problem> {
    let _permit = page.work()?;
    let name = |text: Option<String>, what: &str| {
        text.filter(|text| is_subdomain(text))
            .ok_or_else(|| Problem::wrong(format!("{what}: expected a name")))
    };
    let (namespace, pod) = (name(query.namespace, "namespace")?, name(query.pod, "pod")?);
    objects::logs(&page.client, Namespace(&namespace), Name(&pod), &name(query.container, "container")?).await
}

async fn findings(State(page): State<Arc<Page>>, Query(query): Parameters) -> Answer {
    let _permit = page.work()?;
    page.cluster.findings(existing(&page, &query).await?).await.map(Json).map_err(Problem::failed)
}

async fn keys(State(page): State<Arc<Page>>) -> Answer {
    let _permit = page.work()?;
    page.cluster.keys().await.map(Json).map_err(Problem::failed)
}

async fn explain(State(page): State<Arc<Page>>, Query(query): Parameters) -> Answer {
    let _permit = page.work()?;
    let path = query.path.clone().filter(|path| !path.is_empty());
    page.cluster.explain(existing(&page, &query).await?, path).await.map(Json).map_err(Problem::wrong)
}

async fn decisions(State(page): State<Arc<Page>>, Query(query): Parameters) -> Answer {
    let _permit = page.work()?;
    let service = existing(&page, &query).await?;
    let pickers = picker::of_service(&page.client, &service).await.map_err(Problem::failed)?;
    let found = picker::decisions(&page.client, &page.reach, &pickers, query.id.as_deref()).await;
    let (decisions, trouble) = found.ok_or_else(|| {
        Problem::failed("nothing picks for this service: `spec.router.scheduler` gives it a picker")
    })?;
    Ok(Json(json!({"decisions": decisions, "trouble": trouble})))
}

async fn manifest(State(page): State<Arc<Page>>, Query(query): Parameters) -> Result<String, Problem> {
    let _permit = page.work()?;
    objects::manifest(&page.client, &query.service()?).await
}

async fn replace(State(page): State<Arc<Page>>, Query(query): Parameters, manifest: String) -> Answer {
    let _permit = page.work()?;
    objects::replace(&page.client, &query.service()?, &manifest).await?;
    Ok(Json(json!({})))
}

async fn diff(State(page): State<Arc<Page>>, manifests: String) -> Answer {
    let _permit = page.work()?;
    page.cluster.diff(manifests).await.map(Json).map_err(Problem::wrong)
}

async fn simulate(State(page): State<Arc<Page>>, Query(query): Parameters, body: Bytes) -> Answer {
    let simulation = Simulation::parse(&body).map_err(Problem::wrong)?;
    let (service, permit) = (existing(&page, &query).await?, page.simulation()?);
    // A simulation cannot be stopped. It keeps its permit even if the browser has gone.
    let cluster = Arc::clone(&page.cluster);
    let simulated = tokio::spawn(async move {
        let result = cluster.simulate(service, simulation).await;
        drop(permit);
        result
    });
    let result = simulated.await.map_err(|_| Problem::failed("internal error; see the log of Longboat"))?;
    result.map(Json).map_err(Problem::wrong)
}

async fn chat(
    State(page): State<Arc<Page>>,
    Query(query): Parameters,
    body: Bytes,
) -> Result<Response, Problem> {
    let permit = page.stream()?;
    // A chat has the place of a stream, not of a request, because it takes as long as its answer.
    let address = page.cluster.address(existing(&page, &query).await?).await.map_err(Problem::failed)?;
    chat::send(&page.http, &address, &body, permit).await
}
