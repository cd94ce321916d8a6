//! Installs Longboat on a cluster, and uninstalls it.
//!
//! Every object is written by server-side apply with one field manager, [`object::MANAGER`]. So fields that others add stay, fields
//! that others have changed are reported as conflicts, and writing the same objects again changes nothing.

mod apply;
mod object;
mod remove;
mod survey;
mod trust;
mod wait;

use std::time::Duration;

use anyhow::bail;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use longboat_install::{Installation, Values, names::CONTROLLER};

pub(crate) use remove::{Removal, uninstall};

use self::{apply::Applier, wait::Deadline};
use crate::printer;

/// Options of an installation.
#[derive(Debug)]
pub(crate) struct Options<'a> {
    /// The controller's namespace.
    pub(crate) namespace: &'a str,
    /// The chosen values.
    pub(crate) values: &'a Values,
    /// Whether to take over objects and fields of others.
    pub(crate) force: bool,
    /// The time limit of the whole installation.
    pub(crate) limit: Duration,
}

/// Returns the image of the controller that this command has installed.
pub(crate) async fn image(client: &Client, namespace: &str) -> anyhow::Result<Option<String>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = deployments.get_opt(CONTROLLER).await;
    let title = object::named("Deployment", Some(namespace), CONTROLLER);
    let found = found.map_err(|error| object::refused("read", &title, &error))?;
    let pod = found.filter(survey::is_ours).and_then(|found| found.spec?.template.spec);
    Ok(pod.and_then(|pod| pod.containers.into_iter().next()?.image))
}

/// Writes all objects in order. After each part, waits for what the next part needs.
pub(crate) async fn install(
    client: Client,
    installation: &Installation,
    options: &Options<'_>,
) -> anyhow::Result<()> {
    let deadline = Deadline::after(options.limit);
    let survey = survey::read_live(&client, installation, options.namespace, options.force).await?;
    for note in &survey.notes {
        printer::labelled("note:", note);
    }
    let mut applier = Applier::new(client.clone(), options.force, deadline);
    for definition in &installation.definitions {
        applier.write(definition, survey.replaces(definition)).await?;
    }
    wait::established(&client, &installation.definitions, deadline).await?;

    let written = trust::written_ca(&client, options).await?;
    let mut controller: Vec<_> =
        installation.controller.iter().filter(|object| !survey.leaves(object)).cloned().collect();
    // Server-side apply removes what its manager wrote before and leaves out now: without the CA, API servers would refuse services until
    // it is written again.
    trust::insert(&mut controller, written.as_deref());
    for object in &controller {
        applier.write(object, survey.replaces(object)).await?;
    }
    trust::take_over_from_cert_manager(&client, installation, options).await?;
    wait::available(&client, options.namespace, deadline).await?;
    if trust::is_ours(options.values) {
        trust::write_ca(&client, installation, options, written.as_deref(), &mut applier, deadline).await?;
    }
    wait::trusted(&client, installation, deadline).await?;
    wait::answering(&client, options.namespace, deadline).await?;
    for preset in &installation.presets {
        applier.write(preset, survey.replaces(preset)).await?;
    }
    applier.prune(installation).await?;
    let counts = applier.counts_so_far();
    printer::line(&counts.to_string());
    if counts.is_unchanged() {
        printer::note("The installation is up to date; nothing was changed.");
    }
    if options.values.replicas == 0 {
        bail!("values: `replicas` is 0: expected at least 1, because services need a controller");
    }
    Ok(())
}
