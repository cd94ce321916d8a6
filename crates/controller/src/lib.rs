//! Watches, apply, events, finalizers and the webhook server: the shell around compose and plan.
