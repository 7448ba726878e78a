"""The planners that ReAcTree is compared with, and its neighbours."""
