//! Routing from a request to its handler.

use std::sync::Arc;

use http::{HeaderValue, Method, header};
use longboat_types::{KUBERNETES_MINOR, KUBERNETES_VERSION};
use serde_json::{Value, json};

use crate::{
    answer::{self, Answer},
    discovery,
    kinds::{Resource, builtin::Verbs},
    long, metrics, pods, rbac,
    request::{
        Request,
        accept::{Encoding, Shape},
        path::{ResourcePath, segments},
    },
    respond, schema,
    state::State,
    status::ApiError,
    strategy::names::{self, NameRule},
    usage,
    verbs::{Call, create, delete, eviction, pods as pod_verbs, read, reviews, scale, tokens, update, watch},
};

/// Answers a request. Bad input never causes a panic, and every failure becomes a Status.
pub(crate) async fn handle(state: &Arc<State>, request: Request) -> Answer {
    let is_head = request.method == Method::HEAD;
    let mut warnings = Vec::new();
    let mut answer = match route(state, &request, &mut warnings).await {
        Ok(answer) => answer,
        Err(error) => answer::refusal(&error, request.accept.refusal()),
    };
    answer::warn(&mut answer, &warnings);
    if is_head {
        *answer.body_mut() = answer::full(Vec::new());
    }
    answer
}

async fn route(
    state: &Arc<State>,
    request: &Request,
    warnings: &mut Vec<String>,
) -> Result<Answer, ApiError> {
    let path = request.path.as_str();
    if path.starts_with("/api/") || path.starts_with("/apis/") {
        request.query.check_timeout()?;
    }
    if path.starts_with("//") {
        return Ok(answer::no_such_page());
    }
    let parts = segments(path);
    let words: Vec<&str> = parts.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => document(request, &root(state)),
        ["version"] => only_get(request, || document(request, &version())),
        ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", "ping" | "etcd"] => {
            Ok(health(request, &words))
        }
        ["metrics"] if !rbac::allows_path(&state.store, &request.user, "get", "/metrics") => {
            Err(ApiError::new(
                403,
                "Forbidden",
                format!("forbidden: User \"{}\" cannot get path \"/metrics\"", request.user.name),
            ))
        }
        ["metrics"] => Ok(answer::bytes(
            200,
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
            metrics::text(state),
        )),
        ["openapi", "v3", ..] => Ok(openapi(state, request, &parts[2..])),
        ["openapi", "v2"] => openapi_v2(request),
        ["api"] => discover(state, request, true),
        ["apis"] => discover(state, request, false),
        ["apis", "metrics.k8s.io", rest @ ..] if state.pods.read().is_some() => {
            usage::answer(state, request, rest).await
        }
        ["apis", group] => match discovery::group(&state.registry, group) {
            Some(found) => only_get(request, || document(request, &found)),
            None => Ok(answer::no_such_page()),
        },
        ["api", version] => group_version(state, request, "", version),
        ["apis", group, version] => group_version(state, request, group, version),
        ["api", ..] => resource(state, request, "", parts[1..].to_vec(), warnings).await,
        ["apis", group, ..] => resource(state, request, group, parts[2..].to_vec(), warnings).await,
        _ => Ok(answer::no_such_page()),
    }
}

fn only_get(request: &Request, then: impl FnOnce() -> Result<Answer, ApiError>) -> Result<Answer, ApiError> {
    if request.method == Method::GET { then() } else { Err(ApiError::method_not_allowed()) }
}

/// Answers with a document, unless the client has it with this tag.
fn unless_cached(request: &Request, tag: &str, document: impl FnOnce() -> Answer) -> Answer {
    if request.header("if-none-match") == tag {
        return answer::not_modified(tag);
    }
    let mut answer = document();
    answer::tagged(&mut answer, tag);
    answer
}

fn document(request: &Request, value: &Value) -> Result<Answer, ApiError> {
    let form = request.accept.discovery(respond::pretty(request))?;
    Ok(answer::value(200, value, form.encoding))
}

fn discover(state: &State, request: &Request, core: bool) -> Result<Answer, ApiError> {
    let runs_pods = !core && state.pods.read().is_some();
    only_get(request, || {
        let form = request.accept.discovery(respond::pretty(request))?;
        if !matches!(form.shape, Shape::Discovery(_)) {
            let mut value =
                if core { discovery::core_versions() } else { discovery::groups(&state.registry) };
            if runs_pods && let Some(groups) = value["groups"].as_array_mut() {
                groups.push(usage::group());
            }
            return Ok(answer::value(200, &value, form.encoding));
        }
        let part = u8::from(core) + 2 * u8::from(runs_pods);
        let tag = format!("\"{:X}-{part}\"", state.registry.generation());
        Ok(unless_cached(request, &tag, || {
            let mut value = discovery::aggregated(&state.registry, core);
            if runs_pods && let Some(items) = value["items"].as_array_mut() {
                items.push(usage::aggregated());
            }
            let mut answer = answer::value(200, &value, Encoding::Json);
            let headers = answer.headers_mut();
            headers.insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static(
                    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                ),
            );
            headers.insert(header::VARY, HeaderValue::from_static("Accept"));
            answer
        }))
    })
}

fn group_version(state: &State, request: &Request, group: &str, version: &str) -> Result<Answer, ApiError> {
    match discovery::resources(&state.registry, group, version) {
        Some(found) => only_get(request, || document(request, &found)),
        None if discovery::group(&state.registry, group).is_some() => Err(ApiError::no_such_resource()),
        None => Ok(answer::no_such_page()),
    }
}

fn openapi(state: &State, request: &Request, rest: &[String]) -> Answer {
    if rest.is_empty() {
        return unless_cached(request, &format!("\"{:X}\"", state.registry.generation()), || {
            let index = schema::openapi_index(&state.registry).to_string();
            answer::bytes(200, "text/plain; charset=utf-8", index)
        });
    }
    match schema::openapi_bytes(&state.registry, &rest.join("/")) {
        None => answer::bytes(404, "", Vec::new()),
        Some((hash, bytes)) => {
            unless_cached(request, &format!("\"{hash}\""), || answer::bytes(200, "application/json", bytes))
        }
    }
}

/// The OpenAPI v2 document. Clients that know v3 do not use it; the others get an empty document. kubectl asks for v2 in
/// protobuf before it applies a `List`, and sends the items with `fieldValidation` regardless.
fn openapi_v2(request: &Request) -> Result<Answer, ApiError> {
    const TITLE: &str = "Kubernetes";
    if request.header("accept").split(',').any(|media| media.trim() == OPENAPI_V2_PROTOBUF) {
        return Ok(answer::bytes(200, OPENAPI_V2_ANSWERED, openapi_v2_protobuf(TITLE)));
    }
    let form = request.accept.discovery(false)?;
    let empty = json!({"swagger": "2.0", "info": {"title": TITLE, "version": KUBERNETES_VERSION}, "paths": {}, "definitions": {}});
    Ok(answer::value(200, &empty, form.encoding))
}

/// The media type in requests for the message `openapi.v2.Document` of gnostic.
const OPENAPI_V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type in answers: a media type in a header must not contain an `@`.
const OPENAPI_V2_ANSWERED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The same empty document in protobuf.
fn openapi_v2_protobuf(title: &str) -> Vec<u8> {
    // Every field here is length-delimited, with a length of one byte.
    let field = |number: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).unwrap_or_default();
        [&[number << 3 | 2, length], content].concat()
    };
    let info = [field(1, title.as_bytes()), field(2, KUBERNETES_VERSION.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, &[]), field(9, &[])].concat()
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": KUBERNETES_MINOR.to_string(),
        "emulationMajor": "1",
        "emulationMinor": KUBERNETES_MINOR.to_string(),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": (KUBERNETES_MINOR - 1).to_string(),
        "gitVersion": format!("{KUBERNETES_VERSION}+longboat"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("linux/{}", if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }),
    })
}

fn root(state: &State) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned(), "/apis/".to_owned()];
    for (group, versions) in state.registry.groups() {
        if group.is_empty() {
            continue;
        }
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.keys().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(["/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    paths.sort();
    json!({"paths": paths})
}

fn health(request: &Request, words: &[&str]) -> Answer {
    let verbose = request.query.get("verbose").is_some();
    let text = if verbose { format!("[+]ping ok\n{} check passed\n", words[0]) } else { "ok".to_owned() };
    answer::bytes(200, "text/plain; charset=utf-8", text)
}

async fn resource(
    state: &Arc<State>,
    request: &Request,
    group: &str,
    mut parts: Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<Answer, ApiError> {
    if discovery::group(&state.registry, group).is_none() {
        return Ok(answer::no_such_page());
    }
    // the deprecated path of a watch
    let watches = parts.get(1).is_some_and(|part| part == "watch");
    if watches {
        parts.remove(1);
    }
    let Some(path) = ResourcePath::parse(group, &parts) else {
        return Err(ApiError::no_such_resource());
    };
    let Some(resource) = state.registry.find(&path.group, &path.version, &path.plural) else {
        let custom_only = state
            .registry
            .groups()
            .get(group)
            .is_some_and(|versions| versions.values().flatten().all(|r| r.custom().is_some()));
        return if custom_only { Ok(answer::no_such_page()) } else { Err(ApiError::no_such_resource()) };
    };
    let custom = resource.custom().cloned();
    if path.name.as_deref().is_some_and(|name| name.contains('/')) {
        // an escaped slash counts as a slash
        return Err(ApiError::no_such_resource());
    }
    if path.namespace.is_some() && !resource.namespaced {
        return if custom.is_some() { Ok(answer::no_such_page()) } else { Err(ApiError::no_such_resource()) };
    }
    let across = resource.namespaced && path.namespace.is_none();
    let changes = matches!(request.method, Method::POST | Method::PUT | Method::PATCH);
    if across && custom.is_some() && (path.name.is_some() || changes) {
        return Ok(answer::no_such_page());
    }
    if across && path.name.is_some() {
        return Err(ApiError::no_such_resource());
    }
    let mut call = Call {
        state,
        request,
        resource,
        path,
        warnings: custom.as_ref().and_then(|c| c.deprecation.clone()).into_iter().collect(),
    };
    if call.resource.group.is_empty() && call.resource.plural == "endpoints" {
        call.warnings
            .push("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned());
    }
    rbac::check(&call)?;
    // Only built-in kinds have this path for a single object, too.
    let is_old_watch = watches && custom.is_none() && call.path.rest.is_empty();
    let result = if watches && request.method == Method::GET && (is_old_watch || call.path.name.is_none()) {
        watch::open(&call)
    } else if is_old_watch {
        Err(ApiError::method_not_allowed())
    } else if watches {
        Err(ApiError::no_such_resource())
    } else if long::is_long(&call) {
        let permits = if request.method == Method::GET { &state.long_reads } else { &state.long_writes };
        long::run(permits, any_verb(&mut call)).await
    } else {
        any_verb(&mut call).await
    };
    warnings.append(&mut call.warnings);
    result
}

/// Returns why no object can have the name in a path.
fn invalid_name(name: &str) -> Option<String> {
    let problems = names::problems(NameRule::PathSegment, name);
    let text = match problems.as_slice() {
        [] => return None,
        [one] => one.clone(),
        many => format!("[{}]", many.join(" ")),
    };
    Some(format!("Name parameter invalid: {name:?}: {text}"))
}

async fn any_verb(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    if call.resource.custom().is_some() { custom_verb(call).await } else { verb(call).await }
}

/// Handles a verb on a built-in kind: 404 if the resource does not exist, 405 if it does not support the verb.
async fn verb(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let row = call.resource.built_in();
    let verbs = row.map_or(Verbs::All, |r| r.verbs);
    let method = call.request.method.clone();
    if let Some(sub) = call.path.subresource().map(str::to_owned) {
        let there = row.is_some_and(|r| r.subresources.contains(&sub.as_str()));
        if !there || (call.path.rest.len() > 1 && sub != "proxy") {
            return Err(ApiError::no_such_resource());
        }
        return subresource(call, &sub).await;
    }
    if verbs == Verbs::Review {
        return match method {
            Method::POST if call.path.name.is_none() => reviews::review(call),
            _ => Err(ApiError::method_not_allowed()),
        };
    }
    let writable = verbs != Verbs::ReadOnly;
    let across = call.resource.namespaced && call.path.namespace.is_none();
    if matches!(method, Method::GET | Method::DELETE | Method::PATCH)
        && let Some(why) = call.path.name.as_deref().and_then(invalid_name)
    {
        return Err(ApiError::bad_request(why));
    }
    match (method, call.path.name.is_some()) {
        (Method::GET, true) => read::get(call).await,
        (Method::GET, false) if call.request.query.flag("watch") => watch::open(call),
        (Method::GET, false) => read::list(call).await,
        (Method::POST, false) if writable && !across => create::create(call).await,
        (Method::PUT, true) if writable => update::replace(call, None).await,
        (Method::PATCH, true) if writable => update::patch(call, None).await,
        (Method::DELETE, true) if writable => delete::delete(call).await,
        (Method::DELETE, false) if verbs == Verbs::All && !across => delete::collection(call).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

async fn subresource(call: &mut Call<'_>, sub: &str) -> Result<Answer, ApiError> {
    let method = call.request.method.clone();
    match (sub, method) {
        ("status" | "ephemeralcontainers" | "resize", Method::GET) => read::get(call).await,
        ("scale", Method::GET) => scale::get(call).await,
        ("scale", Method::PUT) => scale::replace(call).await,
        ("scale", Method::PATCH) => scale::patch(call).await,
        ("status" | "finalize" | "ephemeralcontainers" | "resize", Method::PUT) => {
            update::replace(call, Some(sub)).await
        }
        ("status" | "ephemeralcontainers" | "resize", Method::PATCH) => update::patch(call, Some(sub)).await,
        ("binding", Method::POST) => pod_verbs::bind(call).await,
        ("eviction", Method::POST) => eviction::evict(call).await,
        ("log", Method::GET) => pod_verbs::log(call).await,
        ("portforward", Method::GET | Method::POST) => pods::forward::open(call),
        ("exec", Method::GET | Method::POST) => pods::exec::open(call, pods::exec::ExecMode::Exec).await,
        ("attach", Method::GET | Method::POST) => pods::exec::open(call, pods::exec::ExecMode::Attach).await,
        ("token", Method::POST) => tokens::request(call),
        ("proxy", _) => pods::proxy::pass(call).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// Handles a verb on a custom resource. In kube-apiserver one handler serves all custom resources, so the errors differ from
/// those of built-in kinds.
async fn custom_verb(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let method = call.request.method.clone();
    let resource: Arc<Resource> = Arc::clone(&call.resource);
    let unsupported = |verb: &str| {
        let message = format!("{verb} is not supported on resources of kind \"{}\"", resource.qualified());
        let details = json!({"group": resource.group, "kind": resource.plural}).as_object().cloned();
        ApiError { details, ..ApiError::new(405, "MethodNotAllowed", message) }
    };
    let verb = match method {
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if call.path.name.is_some() => "delete",
        Method::DELETE => "deletecollection",
        _ => return Err(unsupported("")),
    };
    if let Some(sub) = call.path.subresource().map(str::to_owned) {
        if call.path.rest.len() > 1 {
            return Err(call.not_found());
        }
        let there = match sub.as_str() {
            "status" => resource.has_status(),
            "scale" => resource.has_scale(),
            _ => false,
        };
        return match method {
            _ if !there => Err(call.not_found()),
            Method::GET | Method::PUT | Method::PATCH => subresource(call, &sub).await,
            _ => Err(unsupported(verb)),
        };
    }
    match (method, call.path.name.is_some()) {
        (Method::GET, true) => read::get(call).await,
        (Method::GET, false) if call.request.query.flag("watch") => watch::open(call),
        (Method::GET, false) => read::list(call).await,
        (Method::POST, _) => create::create(call).await,
        (Method::PUT, _) => update::replace(call, None).await,
        (Method::PATCH, true) => update::patch(call, None).await,
        (Method::DELETE, true) => delete::delete(call).await,
        (Method::DELETE, false) => delete::collection(call).await,
        _ => Err(unsupported(verb)),
    }
}
