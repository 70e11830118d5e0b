//! The library of the model `ownership`.

#![no_std]

freehold_classic::export!("freehold_model_ownership", freehold_classic::Ownership);
