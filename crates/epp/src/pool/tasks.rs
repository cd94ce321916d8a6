//! One task for each endpoint of the pool.

use std::sync::Arc;

use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Member, Pool};

/// Runs a task for each member until shutdown. `stays` says whether a task goes on for the second member after it was started
/// for the first.
pub(crate) async fn for_each_member<F: Future<Output = ()> + Send + 'static>(
    pool: &Pool,
    shutdown: &CancellationToken,
    stays: impl Fn(&Arc<Member>, &Arc<Member>) -> bool,
    mut task: impl FnMut(&Arc<Member>) -> Option<F>,
) {
    let mut changes = pool.changes();
    let mut tasks = JoinSet::new();
    let mut running: Vec<(Arc<Member>, AbortHandle)> = Vec::new();
    loop {
        let members = pool.members();
        running.retain(|(known, task)| {
            let stays = members.iter().any(|member| stays(known, member));
            if !stays {
                task.abort();
            }
            stays
        });
        for member in members.iter() {
            if !running.iter().any(|(known, _)| stays(known, member))
                && let Some(task) = task(member)
            {
                running.push((Arc::clone(member), tasks.spawn(task)));
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => break,
            ended = changes.changed() => if ended.is_err() { break },
            Some(ended) = tasks.join_next() => pass_panic_on(ended),
        }
    }
    tasks.shutdown().await;
}

/// Lets a panic of a task go on in the task that waits for it, so that it ends the picker.
pub(crate) fn pass_panic_on(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}
