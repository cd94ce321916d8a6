//! Endpoint picking as pure data: pool state, filters, scorers, profiles, pickers and the prefix index.
