//! `longboat dashboard`: the dashboard of a cluster, for the user of a kubeconfig.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::Context;
use longboat_compose::PresetNames;
use longboat_dashboard::Server;
use longboat_offline::Settings;
use tempfile::NamedTempFile;

use super::cluster;
use crate::{
    cli::DashboardArgs,
    dashboard::{self, ClusterBackend},
    printer,
    runtime::runtime,
    tree::Scope,
};

/// Serves the page until a signal stops it.
pub(crate) fn run(args: &DashboardArgs) -> anyhow::Result<()> {
    runtime()?.block_on(serve(args))
}

async fn serve(args: &DashboardArgs) -> anyhow::Result<()> {
    let shutdown = longboat_accept::shutdown_token()?;
    let cluster = cluster::connect(&args.cluster).await?;
    cluster::namespace_exists(&cluster.client, args.namespace.as_ref()).await?;
    let server = Server::bind(args.port).await?;
    let url = server.url();
    printer::labelled("dashboard:", &url);
    printer::note("It uses the rights of your kubeconfig. Press Ctrl-C to stop it.");
    let scope = args.namespace.clone().map_or(Scope::Everywhere, Scope::Namespace);
    let settings = Settings {
        system_namespace: args.system_namespace.clone(),
        preset_names: PresetNames { prefix: args.preset_prefix.clone(), versioned: true },
        ..Settings::default()
    };
    let here = ClusterBackend::new(cluster.client, cluster.environment, scope, None, settings);
    let page = dashboard::serve(server, here, shutdown)?;
    let _file = if args.open { Some(open(&url)?) } else { None };
    page.await;
    Ok(())
}

/// Opens a page in a browser. Other users can see the arguments of a program. So the address, which contains the token, is
/// in a file that only this user can read. The file exists until the returned value is dropped.
fn open(url: &str) -> anyhow::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("longboat-").suffix(".html").tempfile()?;
    write!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={url}\">\
         <a href=\"{url}\">Longboat</a>"
    )?;
    file.flush()?;
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut started = Command::new(program)
        .arg(file.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start `{program}`: open the address above in a browser"))?;
    // The program passes the file to the browser and ends. A thread must wait for it, or it would stay a zombie.
    std::thread::spawn(move || started.wait());
    Ok(file)
}
