"""WebShop (Yao et al., 2022): shopping in words, at AgentGym's server (Xi et al., 2024) over HTTP."""
