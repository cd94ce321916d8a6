//! `longboat install`: everything that a cluster needs to run services.

use std::{io::Read, path::Path, time::Duration};

use anyhow::Context;
use longboat_install::{Installation, Values, files};
use serde_json::json;

use super::{cluster, runtime};
use crate::{
    cli::{Format, InstallArgs},
    installer::{self, Options},
    printer,
};

/// Runs `install` to its end.
pub(crate) fn run(args: &InstallArgs) -> anyhow::Result<()> {
    let texts: anyhow::Result<Vec<_>> = args.values.iter().map(|path| read(path)).collect();
    let values = Values::read(&texts?, &args.assignments)?;
    let installation = Installation::new(&args.namespace, &values)?;
    if args.dry_run {
        return print(&installation, args.output);
    }
    let options = Options {
        namespace: &args.namespace,
        values: &values,
        force: args.force_conflicts,
        limit: Duration::from_secs(args.timeout),
    };
    runtime()?.block_on(async {
        let client = cluster::client(&args.cluster).await?;
        installer::install(client, &installation, &options).await
    })
}

fn read(path: &Path) -> anyhow::Result<(String, String)> {
    let name = path.display().to_string();
    let text = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("cannot read the values in `{name}`"))?;
    Ok((name, text))
}

fn print(installation: &Installation, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Yaml => {
            printer::piece(&files::documents(installation.objects())?);
        }
        Format::Json => {
            let items: Vec<_> = installation.objects().collect();
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
            printer::line(&serde_json::to_string_pretty(&list)?);
        }
    }
    Ok(())
}
