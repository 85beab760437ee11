# nix build ./packaging/nix
{
  description = "An open linker for CUDA device code, in the place of nvlink";
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "culd";
          version = "0.1.0";
          src = ../..;
          cargoLock.lockFile = ../../Cargo.lock;
          cargoBuildFlags = [ "--package" "culd" ];
          # The tests need Python and the whole workspace; `cargo test --workspace` runs them.
          doCheck = false;
          meta = {
            description = "An open linker for CUDA device code, in the place of nvlink";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "culd";
            platforms = systems;
          };
        };
      });
    };
}
