//! `longboat install`: installs everything that a cluster needs to run services.

use std::{io::Read, path::Path, time::Duration};

use anyhow::{Context, bail};
use longboat_install::{Installation, Values, files};
use longboat_manifest::parse_all;
use longboat_offline::{
    Settings,
    validate::{Finding, Severity, validate},
};

use super::cluster;
use crate::{
    cli::{Format, InstallArgs},
    installer::{self, Options},
    printer,
    runtime::runtime,
};

/// Runs `install`.
pub(crate) fn run(args: &InstallArgs) -> anyhow::Result<()> {
    let texts: anyhow::Result<Vec<_>> = args.values.iter().map(|path| read(path)).collect();
    let texts = texts?;
    let values = Values::read(&texts, &args.assignments)?;
    let has_image = Values::choose_an_image(&texts, &args.assignments);
    let installation = Installation::new(&args.namespace, &values)?;
    check(&installation)?;
    if args.dry_run {
        if !has_image {
            printer::labelled("note:", no_image(&values.image));
        }
        return print(&installation, args.output);
    }
    let options = Options {
        namespace: &args.namespace,
        values: &values,
        force: args.force_conflicts,
        limit: Duration::from_secs(args.timeout),
    };
    runtime()?.block_on(async {
        let client = cluster::connect(&args.cluster).await?.client;
        if !has_image {
            let running = installer::image(&client, &args.namespace).await?;
            match running {
                Some(image) => bail!(
                    "no image is given, and the controller of this cluster runs `{image}`\n  Use `--set \
                     image={image}` to keep this image, or `--set image=REGISTRY/longboat:TAG` for another \
                     one."
                ),
                None => bail!(no_image(&values.image)),
            }
        }
        installer::install(client, &installation, &options).await
    })
}

/// Refuses values with which a cluster would refuse one of the objects, before the first one is written.
fn check(installation: &Installation) -> anyhow::Result<()> {
    // Values do not change the definitions.
    let objects = installation.objects().filter(|object| object["kind"] != "CustomResourceDefinition");
    let report = validate(parse_all("installation", &files::documents(objects)?), &Settings::default());
    let mut errors = report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let Some(Finding { object: Some(object), path, message, .. }) = errors.next() else { return Ok(()) };
    bail!("with these values, a cluster refuses {} {}: {path}: {message}", object.kind, object.name)
}

fn no_image(default: &str) -> String {
    format!(
        "no image is given, and no image is published as `{default}`\n  Build one with `docker build .`, \
         push it to a registry that the nodes of the cluster can reach, and use `--set \
         image=REGISTRY/longboat:TAG`."
    )
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
            printer::write_piece(&files::documents(installation.objects())?);
        }
        Format::Json => printer::list(&installation.objects().collect::<Vec<_>>())?,
    }
    Ok(())
}
