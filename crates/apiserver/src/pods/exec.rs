//! `pods/exec` and `pods/attach`: a process's streams over a WebSocket, or over SPDY/3.1 for older clients.

use std::{io, sync::Arc};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::{
    remote_spdy, remote_ws,
    upgrade::{self, SPDY_VERSIONS, offers},
};
use crate::{
    answer::Answer,
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
    let is_websocket = upgrade::is_websocket(request)?;
    let offered = request.header(if is_websocket { "sec-websocket-protocol" } else { SPDY_VERSIONS });
    // SPDY can close each stream alone, so it does not need v5. A client that offers no version is older than all of them.
    let known: &[&str] = if is_websocket { &PROTOCOLS } else { &PROTOCOLS[1..] };
    let Some(version) = known.iter().find(|known| offers_protocol(request, is_websocket, offered, known))
    else {
        return Err(upgrade::no_common_version(offered, known));
    };
    let connection = upgrade::connection(request)?;
    let execution = start(&access, pods::pod_ref(call), options.clone(), asked).await?;
    Ok(upgrade::start(call, is_websocket, version, run(connection, is_websocket, execution, options)))
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
    let headers = request.headers.get_all(SPDY_VERSIONS).iter();
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
