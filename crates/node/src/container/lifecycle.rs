//! postStart and preStop hooks.

use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;

use super::process;
use crate::probe::{self, Target};

/// Runs a hook to its end. The caller limits its time.
pub(crate) async fn run(handler: &LifecycleHandler, target: &Target) -> Result<(), String> {
    if let Some(action) = &handler.exec {
        let command = action.command.clone().unwrap_or_default();
        let launch = target.launch.exec(&target.host, &command).map_err(|error| error.to_string())?;
        let done = process::exec(&launch, target.reaper.as_ref()).await.map_err(|error| error.to_string())?;
        if done.exit.code == 0 {
            Ok(())
        } else {
            let (command, output) = (command.join(" "), done.output.trim_end());
            Err(format!("command '{command}' exited with {}: {output}", done.exit.code))
        }
    } else if let Some(action) = &handler.http_get {
        probe::http::hook(action, &target.container, &target.pod_ip, Duration::from_mins(1)).await
    } else if let Some(action) = &handler.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0))).await;
        Ok(())
    } else {
        Err("invalid handler: expected exec, httpGet or sleep".to_owned())
    }
}
