//! Links and flows.
