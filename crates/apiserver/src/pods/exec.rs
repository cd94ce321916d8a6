//! `pods/exec` and `pods/attach`: a process's streams over a WebSocket, or over SPDY/3.1 for older clients.

use std::{io, sync::Arc};

use http::{HeaderValue, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{forward::offers, remote_spdy, remote_ws};
use crate::{
    answer::{self, Answer},
    pod_access::{ExecOptions, Execution, PodAccess, PodRef},
    status::ApiError,
    verbs::{Call, pods},
};

/// The supported protocol versions, newest first. In v5 the client can close the input alone.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// The requested operation: start a new process, or attach to the container's main process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecMode {
    Exec,
    Attach,
}

/// Opens a session.
pub(crate) async fn open(call: &Call<'_>, asked: ExecMode) -> Result<Answer, ApiError> {
    let node = pods::connect(call)?;
    let access = pods::access(call, &node)?;
    let options = options(call, asked)?;
    let request = call.request;
    let missing = || ApiError::bad_request("unable to upgrade: missing upgrade headers in request");
    let protocol = request.header("upgrade").to_ascii_lowercase();
    let is_websocket = match protocol.as_str() {
        "websocket" => true,
        "spdy/3.1" => false,
        _ => return Err(missing()),
    };
    let offered =
        request.header(if is_websocket { "sec-websocket-protocol" } else { "x-stream-protocol-version" });
    // SPDY can close each stream alone, so it does not need v5. A client that offers no version is older than all of them.
    let known: &[&str] = if is_websocket { &PROTOCOLS } else { &PROTOCOLS[1..] };
    let Some(version) = known.iter().find(|known| offers_protocol(request, is_websocket, offered, known))
    else {
        return Err(ApiError::new(
            403,
            "Forbidden",
            format!(
                "unable to upgrade: unable to negotiate protocol: client supports [{offered}], server supports [{}]",
                known.join(" ")
            ),
        ));
    };
    let on_upgrade = request.upgrade.lock().take().ok_or_else(missing)?;
    let execution = start(&access, pods::pod_ref(call), options.clone(), asked).await?;

    let mut answer = Response::new(answer::full(Vec::new()));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    if is_websocket {
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(version));
        let accept = derive_accept_key(request.header("sec-websocket-key").as_bytes());
        if let Ok(accept) = HeaderValue::from_str(&accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
    } else {
        headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        headers.insert("x-stream-protocol-version", HeaderValue::from_static(version));
    }
    let closing = call.state.sessions.closing.clone();
    call.state.sessions.tasks.spawn(async move {
        if let Some(Err(error)) =
            closing.run_until_cancelled(run(on_upgrade, is_websocket, execution, options)).await
        {
            tracing::debug!(%error, "An exec session ended.");
        }
    });
    Ok(answer)
}

/// Whether the client offers a version. Old SPDY clients send one header for each version.
fn offers_protocol(
    request: &crate::request::Request,
    is_websocket: bool,
    offered: &str,
    known: &str,
) -> bool {
    if is_websocket {
        return offers(offered, known);
    }
    let headers = request.headers.get_all("x-stream-protocol-version").iter();
    headers.filter_map(|value| value.to_str().ok()).any(|value| offers(value, known))
}

fn options(call: &Call<'_>, asked: ExecMode) -> Result<ExecOptions, ApiError> {
    let query = &call.request.query;
    let command: Vec<String> = query.all("command").map(str::to_owned).collect();
    if asked == ExecMode::Exec && command.is_empty() {
        return Err(ApiError::bad_request("you must specify at least 1 command for the exec operation"));
    }
    let options = ExecOptions {
        container: query.get("container").filter(|name| !name.is_empty()).map(str::to_owned),
        command,
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        // A terminal has only one output.
        stderr: query.flag("stderr") && !query.flag("tty"),
        tty: query.flag("tty"),
    };
    if !options.stdin && !options.stdout && !options.stderr {
        return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    Ok(options)
}

async fn start(
    access: &Arc<dyn PodAccess>,
    pod: PodRef,
    options: ExecOptions,
    asked: ExecMode,
) -> Result<Execution, ApiError> {
    let started = match asked {
        ExecMode::Exec => access.exec(pod, options).await,
        ExecMode::Attach => access.attach(pod, options).await,
    };
    started.map_err(pods::refusal)
}

async fn run(
    upgrade: OnUpgrade,
    is_websocket: bool,
    execution: Execution,
    options: ExecOptions,
) -> io::Result<()> {
    let socket = TokioIo::new(upgrade.await.map_err(io::Error::other)?);
    if is_websocket {
        remote_ws::serve(socket, execution).await
    } else {
        let (input, output) = tokio::io::split(socket);
        remote_spdy::serve(input, output, execution, &options).await
    }
}
