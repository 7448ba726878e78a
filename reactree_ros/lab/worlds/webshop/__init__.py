"""WebShop (Yao et al., 2022): shopping in words, at a server of AgentGym's (Xi et al., 2024) over HTTP."""
